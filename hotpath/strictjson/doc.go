// Package strictjson reads JSON text as strictly as the interface demands
// (S1). A Checker proves a text once, whole; all that is read of it afterwards
// (Members, Elements, Unquote, Compact) relies on that, checks nothing and
// gives pieces of the text itself. Of a text that was not proved, these give
// something, without a panic.
package strictjson
