import fc from "fast-check";

/** Text of any code points. `unit: "binary"` of fast-check takes a second to prepare. */
export function anyText(maxLength = 60): fc.Arbitrary<string> {
  const ascii = fc.integer({ min: 0, max: 0x7f });
  const bmp = fc.integer({ min: 0x80, max: 0xd7ff });
  const others = fc.integer({ min: 0xe000, max: 0x10_ffff });
  const unit = fc.oneof(ascii, bmp, others).map((code) => String.fromCodePoint(code));
  return fc.array(unit, { maxLength }).map((units) => units.join(""));
}
