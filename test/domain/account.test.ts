import assert from "node:assert/strict";
import { test } from "node:test";

import fc from "fast-check";

import { EMAIL_LENGTH_MAX, EMAIL, whyUndecidable } from "../../src/domain/account/account.ts";

const isEmail = (text: string): boolean => EMAIL.parse(text).kind === "value";

const HOSTILE: readonly string[] = [
  // A second line would be a header of the mail.
  ...["a@b.example\n", "\na@b.example", "a@b.example\r\nBcc: c@d.example", "a\r\n@b.example"],
  ...["a\u0000@b.example", "a@b.example\u0000", "a\u001b[2J@b.example", "a@\u009b2Jb.example"],
  // Characters that reverse, join or hide text.
  ...["a\u202e@b.example", "a\u200b@b.example", "a@\u2066b.example", "\ufeffa@b.example"],
  ...["a@b.example\u{e0041}", "a\u00ad@b.example", "a@b\u2028.example", "a@b\u3000.example"],
  // Lone surrogates.
  ...["\ud800@b.example", "a@\udfff.example", "a@b.example\ud83d"],
  // More than one address, or an address with a name.
  ...["a@b@c.example", "a@b.example,c@d.example", "a@b.example;c@d.example", "a:b@c.example;"],
  ...["<a@b.example>", "Ann <a@b.example>", '"a b"@c.example', "a(b)@c.example", "a@[127.0.0.1]"],
  ...["a\\@b.example", "a b@c.example", " a@b.example", "a@b.example ", "mailto:a@b.example"],
  ...["", "@", "a", "a@", "@b", "a.b.example", "null", "[object Object]", "a＠b.example"],
];

test("hostile text is not an e-mail address", () => {
  for (const text of HOSTILE) assert.equal(isEmail(text), false, JSON.stringify(text));
});

test("an address that mail servers accept is an e-mail address", () => {
  const addresses =
    "a@b a@b.example first.last+tag@sub.b.example o'neil@b.example a/b=c@d.example _@b.example " +
    "a@1.2.3.4 üser@bücher.example 用户@例子.example 😀@b.example !#$%&*{}|~^`?@b.example " +
    "UPPER@CASE.EXAMPLE __proto__@b.example";
  for (const text of addresses.split(" ")) assert.equal(isEmail(text), true, text);
});

test("an e-mail address has at most 254 characters", () => {
  const domain = "@b.example";
  const longest = "a".repeat(EMAIL_LENGTH_MAX - domain.length) + domain;

  assert.equal(longest.length, 254);
  assert.equal(isEmail(longest), true);
  assert.equal(isEmail(`a${longest}`), false);
  assert.equal(isEmail("a@".repeat(5_000_000)), false);
});

test("an e-mail address is one @ between plain characters", () => {
  const plain = fc.constantFrom("a", "0", ".", "-", "+", "é", "😀");
  const wrong = fc.constantFrom(...'@ \n\0\u009b\u202e<,"\ud800');
  const text = fc.array(fc.oneof({ weight: 9, arbitrary: plain }, wrong), { maxLength: 12 });
  const PLAIN = /^(?:[a0.+é-]|😀)+$/u;
  fc.assert(
    fc.property(text, text, (before, behind) => {
      const [local, domain] = [before.join(""), behind.join("")];

      assert.equal(isEmail(`${local}@${domain}`), PLAIN.test(local) && PLAIN.test(domain));
    }),
    { numRuns: 2000 },
  );
});

test("an existing request is decided once", () => {
  assert.equal(whyUndecidable(undefined), "unknown");
  assert.equal(whyUndecidable(null), null);
  assert.equal(whyUndecidable("approved"), "decided");
  assert.equal(whyUndecidable("denied"), "decided");
});
