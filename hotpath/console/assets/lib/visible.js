// Which characters show nothing, as audit/spend/visible.go in the service has it. Both pass audit/spend/testdata/visible.json.

const nothing = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\ufffc\u{16fe4}\u{13441}\u{13442}\u{1d159}]/u;

// unseen yields the characters that show nothing, or only move what is around them, and combining marks on nothing: at the start, and
// after white space. Each is [index, character].
export function* unseen(text) {
  let base = false;
  let index = 0;
  for (const c of text) {
    const mark = /\p{M}/u.test(c);
    const hidden = nothing.test(c);
    if (hidden || (mark && !base)) yield [index, c];
    if (/\p{White_Space}/u.test(c)) base = false;
    else if (!mark && !hidden) base = true;
    index += c.length;
  }
}

const alphabets = ["Latin", "Cyrillic", "Greek", "Armenian", "Cherokee", "Coptic"].map((name) => [name, new RegExp(`\\p{sc=${name}}`, "u")]);

// mixed returns the alphabets of a name that mixes some with letters that look alike (UTS 39, restriction level 4); none of any other.
export function mixed(name) {
  const found = alphabets.filter(([, letters]) => letters.test(name)).map(([alphabet]) => alphabet);
  return found.length > 1 ? found : [];
}
