import fc from "fast-check";

import { EMPTY_ALLOW_LIST } from "../../src/domain/address/allow-list.ts";
import type { UrlPolicy } from "../../src/domain/webhook/webhook-url.ts";
import { anyText } from "../helpers/any-text.ts";

const LABEL_63 = "a".repeat(63);
const NAME_253 = [LABEL_63, LABEL_63, LABEL_63, "a".repeat(61)].join(".");

/** The policy of a machine with names and addresses, and nothing allowed. */
export const POLICY: UrlPolicy = {
  allow: EMPTY_ALLOW_LIST,
  ownNames: ["Worker-7.example.net", "worker-7"],
  ownAddresses: ["93.184.216.34", "2606:2800:220:1::1", "fe80::7%eth0"],
};

/** URLs as written, and the normal form each is requested in. */
export const NORMAL_FORMS = [
  ["https://hooks.example.com/cb?x=1", "https://hooks.example.com/cb?x=1"],
  ["HTTPS://HOOKS.Example.COM/CB", "https://hooks.example.com/CB"],
  ["http://h.example", "http://h.example/"],
  ["http://h.example?", "http://h.example/?"],
  ["http://h.example/?", "http://h.example/?"],
  ["http://h.example/a?b?c", "http://h.example/a?b?c"],
  ["http://h.example/#fragment", "http://h.example/"],
  ["http://h.example/a #f", "http://h.example/a%20"],
  ["http://h.example/a?q #f#g", "http://h.example/a?q%20"],
  ["http://h.example#", "http://h.example/"],
  ["http://h.example:80/", "http://h.example/"],
  ["http://h.example:/", "http://h.example/"],
  ["http://h.example:00443/", "http://h.example:443/"],
  ["https://h.example:443/", "https://h.example/"],
  ["https://h.example:80/", "https://h.example:80/"],
  ["http://h.example:65535/", "http://h.example:65535/"],
  ["http://bücher.example/ü?ü=ü", "http://xn--bcher-kva.example/%C3%BC?%C3%BC=%C3%BC"],
  ["http://B%C3%9Ccher。Example/", "http://xn--bcher-kva.example/"],
  ["http://faß.example/", "http://xn--fa-hia.example/"],
  ["http://h.example/a b?c d", "http://h.example/a%20b?c%20d"],
  ["http://h.example/a/./b/../c/%2e%2E/d", "http://h.example/a/d"],
  ["http://h.example/../..", "http://h.example/"],
  ["http://h.example//a//b", "http://h.example//a//b"],
  ["http://h.example\\a\\b?c\\d", "http://h.example/a/b?c\\d"],
  [`http://h.example/'"?'"`, "http://h.example/'%22?%27%22"],
  ["http://h.example/%zz%", "http://h.example/%zz%"],
  ["http://h.example/%24id/$id", "http://h.example/%24id/$id"],
  ["http://h.example/u@v:w", "http://h.example/u@v:w"],
  ["http://h.example/\u00a0\ufeff.", "http://h.example/%C2%A0%EF%BB%BF."],
  ["http://-a_b-.example/", "http://-a_b-.example/"],
  [`http://${NAME_253}/`, `http://${NAME_253}/`],
  ["http://134744072/", "http://8.8.8.8/"],
  ["http://8.8.8.8:8080/", "http://8.8.8.8:8080/"],
  ["http://[2606:4700:0:0:0:0:0:1111]:80/", "http://[2606:4700::1111]/"],
  ["http://[::ffff:8.8.8.8]/", "http://[::ffff:808:808]/"],
  ["http://0.example.com/", "http://0.example.com/"],
  ["http://localhost.example.com/", "http://localhost.example.com/"],
  ["http://127.0.0.1.nip.io/", "http://127.0.0.1.nip.io/"],
] as const;

/** Rules, and URLs that each rule refuses on the machine of {@link POLICY}. */
export const REFUSALS: readonly (readonly [rule: string, urls: readonly [string, ...string[]]])[] =
  [
    ["malformed Unicode", ["http://h.example/\ud800", "http://h.example/\udc00x#"]],
    ["control character", texts("http://h.example/\n|ht\ttp://h.example/|\0http://h.example/")],
    [
      "control character",
      texts("http://h.example/\u007f|http://h.example/#\0|http://l\rocalhost/"),
    ],
    ["control character", ["http://h.example/\u0085"]],
    ["white space around the URL", texts(" http://h.example/|http://h.example/ ")],
    ["white space around the URL", texts("http://h.example/\u3000|\ufeffhttp://h.example/")],
    ["not http or https", texts("|h.example|//h.example/|ftp://h.example/|file:///etc/passwd")],
    ["not http or https", texts("javascript:alert(1)|http:h.example|http:/h.example")],
    ["not http or https", texts("http:\\\\h.example|https//h.example")],
    [
      "no host",
      texts("http://|http:///h.example|https://?q|http://#f|http://\\h.example|http://:80/"),
    ],
    [
      "credentials",
      texts("http://u:p@h.example/|http://u@h.example/|http://@h.example/|http://:@a.b/"),
    ],
    [
      "port",
      texts("http://h.example:0/|http://h.example:65536/|http://h.example:8o/|http://[::1]:x/"),
    ],
    ["invalid host", texts("http://h example/|http://1.2.3.4.5/|http://[::1|http://[::1%25lo]/")],
    ["invalid host", ["http://a^b/"]],
    ["empty host label", texts("http://a..example/|http://.example/|http://h.example./|http://./")],
    [
      "empty host label",
      texts("http://8.8.8.8./|http://8.8.8.8。/|http://8.8.8.8%2E/|http://127.0.0.1./"),
    ],
    ["empty host label", texts("http://8.8.8.8.\u00ad:80/|http://134744072./|http://localhost./")],
    ["host label over 63 characters", texts(`http://${LABEL_63}a.example/|http://h.${LABEL_63}a/`)],
    ["host label over 63 characters", [`http://${"ü".repeat(60)}.example/`]],
    ["host name over 253 characters", [`http://a${NAME_253}/`.replace("aaa.", "aa.a.")]],
    ["host name over 253 characters", [`http://${"a.".repeat(400)}b/`]],
    ["host name characters", texts("http://a!b.example/|http://$id.example/|http://a*.example/")],
    ["host name characters", ["http://%24tag.example/"]],
    ["URL over 2048 bytes", [`http://h.example/${"a".repeat(2032)}`]],
    ["URL over 2048 bytes", [`http://h.example/${"ü".repeat(339)}`]],
    ["URL over 2048 bytes", [`http://h.example/${"a/../".repeat(1700)}`]],
    ["name without a dot", texts("http://intranet/|http://metadata/|http://com/|http://xn--a/")],
    ["local name (localhost, RFC 6761)", texts("http://localhost/|http://LOCALHOST:80/")],
    [
      "local name (localhost, RFC 6761)",
      texts("http://a.localhost/|http://%6cocalhost/|http://ⓛocalhost/"),
    ],
    ["local name (.localdomain)", ["http://localhost.localdomain/"]],
    ["local name (.local, RFC 6762)", texts("http://printer.local/|http://a.svc.cluster.local/")],
    ["local name (.internal, ICANN)", ["http://metadata.google.internal/computeMetadata/v1/"]],
    ["local name (.lan, RFC 6762)", texts("http://receiver.lan/|http://receiver。ＬＡＮ/")],
    ["local name (.home.arpa, RFC 8375)", texts("http://router.home.arpa/|http://home.arpa/")],
    ["local name (.onion, RFC 7686)", ["http://a.onion/"]],
    ["name of this machine", texts("http://worker-7.example.net/|http://WORKER-7/")],
    ["address of this machine", texts("http://93.184.216.34/|http://[2606:2800:220:1::1]/")],
    [
      "address of this machine",
      texts("http://[::ffff:93.184.216.34]/|http://[64:ff9b::93.184.216.34]/"),
    ],
    ["loopback (RFC 1122)", texts("http://127.1/|http://0177.0.0.1/|http://0x7f000001/")],
    ["loopback (RFC 1122)", texts("http://2130706433/|http://１２７.0.0.1/|http://127。0。0。1/")],
    ["loopback (RFC 1122)", texts("http://%31%32%37.1/|http://[::FFFF:7f00:1]/")],
    ["loopback (RFC 4291)", texts("http://[::1]/|http://[0:0::0:1]:9000/")],
    ["this network (RFC 791)", texts("http://0/|http://0x/|http://0.0.0.0:8080/")],
    ["link-local (RFC 3927)", texts("http://169.254.169.254/latest/meta-data|http://0xa9fea9fe/")],
  ];

function texts(joined: string): readonly [string, ...string[]] {
  const [first = "", ...others] = joined.split("|");
  return [first, ...others];
}

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
