/** An exact decimal, as text: "19.9". In the service's answers it has no exponent. */
export type Amount = string;

/** What is accepted as an amount: text, a bigint, or a number of at most 15 digits. */
export type AmountInput = string | number | bigint;

const decimal = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d{1,4}))?$/;

/** Parsed is digits / 10^scale, without trailing zeros of the fraction. */
interface Parsed {
  digits: bigint;
  scale: number;
}

function parse(text: string): Parsed | undefined {
  const found = decimal.exec(text);
  if (!found) return undefined;
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = found;
  let digits = BigInt(sign + whole + fraction);
  let scale = fraction.length - Number(exponent);
  if (digits === 0n) return { digits, scale: 0 };
  if (scale < 0) {
    digits *= 10n ** BigInt(-scale);
    scale = 0;
  }
  while (scale > 0 && digits % 10n === 0n) {
    digits /= 10n;
    scale--;
  }
  return { digits, scale };
}

function format({ digits, scale }: Parsed): Amount {
  const text = String(digits).padStart(scale + 1, "0");
  return scale === 0 ? text : `${text.slice(0, -scale)}.${text.slice(-scale)}`;
}

function exact(value: Amount): Parsed {
  const parsed = parse(value);
  if (!parsed) throw new RangeError(`${JSON.stringify(value)} is no decimal`);
  return parsed;
}

/**
 * amount returns the exact decimal that a value stands for. It throws a RangeError for a value
 * that is negative or has more than 18 integer, 9 fraction or 19 digits in all, and for a number
 * of more than 15 digits, which binary floating point may not represent exactly.
 */
export function amount(value: AmountInput): Amount {
  const parsed = ["string", "number", "bigint"].includes(typeof value) ? parse(String(value)) : undefined;
  if (!parsed) throw new RangeError(`${JSON.stringify(String(value))} is no amount`);
  const text = format(parsed);
  const digits = text.replace(".", "").replace(/^0+/, "").length;
  const whole = text.length - (parsed.scale && parsed.scale + 1);
  if (parsed.digits < 0n || whole > 18 || parsed.scale > 9 || digits > 19) {
    throw new RangeError(`${text.slice(0, 40)} is no amount: at least 0, at most 18 integer, 9 fraction and 19 digits in all`);
  }
  if (typeof value === "number" && digits > 15) {
    throw new RangeError(`the number ${text} has more than 15 digits: give it as a string`);
  }
  return text;
}

/** payable throws a RangeError for an amount that nobody can pay: 0, or one with more digits than the currency's minor unit has. */
export function payable(value: AmountInput, currency: string): void {
  const { digits, scale } = exact(amount(value));
  if (digits === 0n) throw new RangeError("the amount is 0, which some providers take for no amount, and then for all that there is");
  const code = currency.trim().toUpperCase();
  const [most = scale] = minorDigits.find(([, codes]) => codes.split(" ").includes(code)) ?? [];
  if (scale > most) throw new RangeError(`${value} ${code} cannot be paid: ${code} has ${most} decimal digits`);
}

/** minorDigits has the currencies of ISO 4217 by the digits of their minor unit, as the service has them. Intl has those of CLDR. */
const minorDigits: [number, string][] = [
  [0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"],
  [3, "BHD IQD JOD KWD LYD OMR TND"],
  [4, "CLF UYW"],
  [
    2,
    "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF CHW CNY COP COU CRC " +
      "CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR " +
      "KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN " +
      "PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS " +
      "UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG",
  ],
];

/** compareAmounts returns a negative number, 0 or a positive number, as sort functions expect. */
export function compareAmounts(a: Amount, b: Amount): number {
  const [x, y] = [exact(a), exact(b)];
  const scale = Math.max(x.scale, y.scale);
  const difference = x.digits * 10n ** BigInt(scale - x.scale) - y.digits * 10n ** BigInt(scale - y.scale);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

/** minorUnits returns "19.9" with 2 places as 1990n. It throws a RangeError if the result is not an integer. */
export function minorUnits(value: Amount, places: number): bigint {
  const { digits, scale } = exact(value);
  if (scale > places) throw new RangeError(`${value} has more than ${places} decimal places`);
  return digits * 10n ** BigInt(places - scale);
}

/** sameNumber reports whether two texts are the same decimal. */
export function sameNumber(a: string, b: string): boolean {
  const [x, y] = [parse(a), parse(b)];
  return x !== undefined && y !== undefined && x.digits === y.digits && x.scale === y.scale;
}
