// Amounts compared and subtracted exactly, as they are written.
import { exact } from "./json.js";

const written = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/;

// read returns an amount as a whole number of units of 10^-18, or null of what is none.
function read(value) {
  const [, sign, whole, rest = "", exponent = "0"] = written.exec(exact(value)) ?? [];
  const moved = 18 - rest.length + Number(exponent);
  if (whole === undefined || moved < 0 || moved > 100) return null;
  return BigInt(`${sign}${whole}${rest}`) * 10n ** BigInt(moved);
}

// compare returns a number below, at or above 0; 0 too if one of both is no amount.
export function compare(a, b) {
  const [x, y] = [read(a), read(b)];
  return x === null || y === null || x === y ? 0 : x < y ? -1 : 1;
}

// minus returns the text of a less b.
export const minus = (a, b) => text(read(a) - read(b));

// sum returns the text of the sum of amounts.
export const sum = (amounts) => text(amounts.reduce((total, amount) => total + (read(amount) ?? 0n), 0n));

function text(left) {
  const digits = (left < 0n ? -left : left).toString().padStart(19, "0");
  return `${left < 0n ? "-" : ""}${digits.slice(0, -18)}.${digits.slice(-18)}`.replace(/\.?0+$/, "");
}
