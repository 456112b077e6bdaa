import fc from "fast-check";

import { anyText } from "../helpers/any-text.ts";

// Pieces that parsers have disagreed about, and pieces that are well-formed, so that many drafts
// are URLs.
const SCHEMES = "http:// https:// HTTP:// http:/ http: http:/// //|https://u:p@|http://@".split(
  /[ |]/,
);
const HOSTS = [
  ..."h.example H.Example. bücher.example xn--bcher-kva.example xn--a.example a..b".split(" "),
  ..."localhost receiver.lan worker-7 127.0.0.1 127.1 0x7f.1 2130706433 8.8.8.8".split(" "),
  ..."8.8.8.8. 134744072 1.2.3.4.5 [::1] [::ffff:8.8.8.8] [2606:4700::1] [::1%25lo]".split(" "),
  ..."%6cocalhost 127。0。0。1 ⓛocalhost a\u00adb.example ß.example x_y.example".split(" "),
  "",
];
const PORTS = ["", "", "", ":", ":80", ":443", ":0", ":00080", ":65536", ":x", ":８０"];
const TAILS =
  "|/|/a/../b|/%2e%2e/c|?|/?|?q=é|/a b|/é|#f|/ #f|\\@x|/'\"|/%zz|/$id|?$tag#$id|/\u0000|/\ud800";

/** Texts that look like webhook URLs, from sound to hostile. */
export function hostileUrl(): fc.Arbitrary<string> {
  const junk = fc.oneof(anyText(8), fc.string({ maxLength: 8 }));
  const piece = (choices: readonly string[]): fc.Arbitrary<string> =>
    fc.oneof({ arbitrary: fc.constantFrom(...choices), weight: 6 }, { arbitrary: junk, weight: 1 });
  const host = fc.oneof(
    piece(HOSTS),
    fc.domain(),
    fc.ipV4Extended(),
    fc.ipV6().map((address) => `[${address}]`),
    junk.map((label) => `${label}.example`),
  );
  const drafted = fc
    .tuple(piece(SCHEMES), host, piece(PORTS), fc.array(piece(TAILS.split("|")), { maxLength: 3 }))
    .map(([scheme, name, port, tails]) => scheme + name + port + tails.join(""));
  return fc.oneof(
    { arbitrary: drafted, weight: 8 },
    { arbitrary: fc.webUrl({ withFragments: true, withQueryParameters: true }), weight: 1 },
    { arbitrary: anyText(), weight: 1 },
  );
}
