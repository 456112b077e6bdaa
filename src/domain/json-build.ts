/** JSON whose numbers keep every digit and whose names stay what they are, where the platform's parser would change some. */

const SPACE = 0x20;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const MINUS = 0x2d;
const ZERO = 0x30;
const NINE = 0x39;
const POINT = 0x2e;
const COLON = 0x3a;
const ARRAY_OPEN = 0x5b;
const ARRAY_CLOSE = 0x5d;
const OBJECT_OPEN = 0x7b;
const OBJECT_CLOSE = 0x7d;

/** What one look at a text tells before it is parsed. */
export interface JsonSurvey {
  /** Brackets nest deeper than was asked. */
  readonly isTooDeep: boolean;
  /** The platform's parser would change a number, or might mistake a name: see {@link buildJson}. */
  readonly isForBuilder: boolean;
}

/**
 * Looks at a text once, before it is parsed, because parsers are recursive: 100,000 levels would cost the stack. Of a
 * text that is no JSON it may tell anything; one that is too deep it leaves at the bracket that is.
 */
export function surveyJson(text: string, depthMax: number): JsonSurvey {
  let depth = 0;
  let isForBuilder = false;
  let escapeAt = -1;
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) {
      if (escapeAt < i) escapeAt = nextEscape(text, i);
      // Nearly every string is without escapes: the platform finds its end faster than one look at each character.
      const quoteAt = text.indexOf('"', i + 1);
      const isPlain = quoteAt !== -1 && quoteAt < escapeAt;
      const end = isPlain ? quoteAt : stringEnd(text, i);
      isForBuilder ||= !isPlain && isName(text, end);
      i = end;
    } else if (unit === ARRAY_OPEN || unit === OBJECT_OPEN) {
      if (++depth > depthMax) return { isTooDeep: true, isForBuilder };
    } else if (unit === ARRAY_CLOSE || unit === OBJECT_CLOSE) depth--;
    else if (isDigit(unit) || unit === MINUS) {
      const end = numberEnd(text, i);
      isForBuilder ||= isChanged(text, i, end);
      i = end - 1;
    }
  }
  return { isTooDeep: false, isForBuilder };
}

/**
 * The value of a text that `JSON.parse` has taken, as it should be: with `JSON.rawJSON` for each number that a double
 * would change, and with every name that is written with escapes. V8 up to 14.6 takes such a name for another, of an object
 * that it parsed before: after `{"a":1,"\\":1}`, `{"a":1,"\n":1}` has a backslash too.
 * As deep as the text; it never looks back, so a byte costs the same wherever it stands.
 */
export function buildJson(text: string): unknown {
  return new Builder(text).value();
}

/** Every text here is JSON for certain, so nothing is checked again. */
class Builder {
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(): unknown {
    const unit = this.#next();
    if (unit === QUOTE) return this.#string();
    if (unit === ARRAY_OPEN) return this.#array();
    if (unit === OBJECT_OPEN) return this.#object();
    return unit === MINUS || isDigit(unit) ? this.#number() : this.#word(unit);
  }

  /** The next character that is no white space. */
  #next(): number {
    let unit = this.#text.charCodeAt(this.#at);
    while (unit <= SPACE) unit = this.#text.charCodeAt(++this.#at);
    return unit;
  }

  #array(): unknown[] {
    const values: unknown[] = [];
    this.#at++;
    if (this.#next() !== ARRAY_CLOSE) {
      do values.push(this.value());
      while (this.#isFollowed());
    } else this.#at++;
    return values;
  }

  #object(): object {
    const members: Record<string, unknown> = {};
    this.#at++;
    if (this.#next() !== OBJECT_CLOSE) {
      do {
        this.#next();
        const name = this.#string();
        this.#next();
        // The colon.
        this.#at++;
        setMember(members, name, this.value());
      } while (this.#isFollowed());
    } else this.#at++;
    return members;
  }

  /** Goes behind the comma or the bracket: true for a comma. */
  #isFollowed(): boolean {
    const unit = this.#next();
    this.#at++;
    return unit === COMMA;
  }

  #string(): string {
    const start = this.#at;
    const end = stringEnd(this.#text, start);
    this.#at = end + 1;
    const inner = this.#text.slice(start + 1, end);
    // What an escape means the platform's parser knows.
    return inner.includes("\\") ? (JSON.parse(`"${inner}"`) as string) : inner;
  }

  #number(): unknown {
    const start = this.#at;
    this.#at = numberEnd(this.#text, start);
    const source = this.#text.slice(start, this.#at);
    return isChanged(this.#text, start, this.#at) ? JSON.rawJSON(source) : Number(source);
  }

  #word(unit: number): boolean | null {
    const isFalse = unit === 0x66;
    this.#at += isFalse ? 5 : 4;
    return isFalse ? false : unit === 0x74 ? true : null;
  }
}

function setMember(members: Record<string, unknown>, name: string, value: unknown): void {
  if (name !== "__proto__") members[name] = value;
  // An assignment would make it the prototype.
  else Object.defineProperty(members, name, { value, ...ORDINARY });
}

const ORDINARY = { configurable: true, enumerable: true, writable: true };

/** True for a string that ends here and that a colon follows. */
function isName(text: string, end: number): boolean {
  let next = end + 1;
  while (text.charCodeAt(next) <= SPACE) next++;
  return text.charCodeAt(next) === COLON;
}

/** Where the next backslash stands, or the end of the text. */
function nextEscape(text: string, start: number): number {
  const at = text.indexOf("\\", start);
  return at === -1 ? text.length : at;
}

/** Where the closing quote stands, or the end of the text. */
function stringEnd(text: string, start: number): number {
  let i = start + 1;
  for (; i < text.length; i++) {
    const unit = text.charCodeAt(i);
    if (unit === QUOTE) break;
    if (unit === BACKSLASH) i++;
  }
  return i;
}

/** Behind the last character that a number may have. */
function numberEnd(text: string, start: number): number {
  let i = start + 1;
  while (isNumberUnit(text.charCodeAt(i))) i++;
  return i;
}

function isNumberUnit(unit: number): boolean {
  if (isDigit(unit) || unit === POINT || unit === MINUS) return true;
  // "+", "e" and "E".
  return unit === 0x2b || unit === 0x65 || unit === 0x45;
}

function isDigit(unit: number): boolean {
  return unit >= ZERO && unit <= NINE;
}

// Up to so many digits a double gives back those that it was made from.
const SAFE_LENGTH = 15;
// The longest that a double is ever written as: -0.0000012345678901234567.
const DOUBLE_LENGTH_MAX = 25;

function isChanged(text: string, start: number, end: number): boolean {
  const length = end - start;
  if (length > DOUBLE_LENGTH_MAX) return true;
  if (length <= SAFE_LENGTH && isPlain(text, start, end)) return false;
  const source = text.slice(start, end);
  return String(Number(source)) !== source;
}

/** True for digits without a zero that would be dropped, as most numbers are: what they become need not be tried. */
function isPlain(text: string, start: number, end: number): boolean {
  const first = text.charCodeAt(start) === MINUS ? start + 1 : start;
  let hasPoint = false;
  for (let i = first; i < end; i++) {
    const unit = text.charCodeAt(i);
    if (unit === POINT) hasPoint = true;
    else if (!isDigit(unit)) return false;
  }
  if (hasPoint && text.charCodeAt(end - 1) === ZERO) return false;
  if (text.charCodeAt(first) !== ZERO) return true;
  // A very small fraction may be written with an exponent, and minus zero loses its sign.
  return hasPoint ? !text.startsWith("0.000000", first) : first === start;
}
