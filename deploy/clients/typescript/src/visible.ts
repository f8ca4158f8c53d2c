const nothing =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Noncharacter_Code_Point}\u2800\ufffc\u{16fe4}\u{13441}\u{13442}\u{1d159}]/u;

/** unseen yields the characters that show nothing, or only move what is around them, as the service has it: combining marks on nothing, too. */
function* unseen(text: string): Generator<[index: number, character: string]> {
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

/** printable quotes a text of others that has characters which show nothing or could control a terminal. */
export function printable(text: string): string {
  const hidden = new Set([...unseen(text)].map(([index]) => index));
  if (hidden.size === 0 && !/[\p{C}]/u.test(text)) return text;
  let quoted = "";
  let index = 0;
  for (const c of text) {
    quoted += hidden.has(index) || /\p{C}/u.test(c) ? escaped(c) : c === '"' || c === "\\" ? `\\${c}` : c;
    index += c.length;
  }
  return `"${quoted}"`;
}

const escaped = (c: string) => [...Array(c.length).keys()].map((i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, "0")}`).join("");
