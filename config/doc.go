// Package config turns the process's environment into one validated value.
//
// It is the only place that reads settings (S28): the rest of the service gets
// a Config or a part of it and never looks at the environment. A setting is a
// variable SPENDGATE_NAME or, for secrets kept in files, SPENDGATE_NAME_FILE
// with the path of a file that holds the value. A blank variable counts as
// absent. Load reports every fault at once, by the variable's name; no message
// ever holds the value of a setting that may be secret.
//
// A variable with the prefix that is not a setting is a fault: it is probably a misspelt
// setting, for which the default would be in force.
package config
