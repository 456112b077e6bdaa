/** The target of the URLs of the cases. */
export interface Place {
  /** A loopback address. */
  readonly address: string;
  readonly port: number;
}

/** One kind of delivery whose signature often fails. */
export interface Case {
  readonly name: string;
  /** Whether the host is written as a name, {@link IDN_HOST}. */
  readonly isNamed?: true;
  /** Whether the receiver is at port 80. */
  readonly isAtDefaultPort?: true;
  /** Path, query and fragment as they are posted, as postback and as pingback. */
  readonly path: string;
  /** The request target that each arrives with; `ID` stands for the task's id. */
  readonly arrives: { readonly postback: string; readonly pingback: string };
  readonly tag?: string;
  readonly input: unknown;
}

export type Kind = "postback" | "pingback";

/** A host name as a client posts it, and as the request has it. */
export const IDN_HOST = "BÜCHER.example";
export const IDN_HOST_ENCODED = "xn--bcher-kva.example";

const UTF8_PATH = "/gr%C3%B6%C3%9Fe/%E6%97%A5%E6%9C%AC?q=%C3%BC%E2%82%AC%F0%9F%98%80&tag=";
const ESCAPED_PATH = "/a%2Fb%20c/%e2%82%ac/%24id?x=%26y%3D1+2&z=%25&latin1=%e4";

// Just under `limits.body`, the URLs and the tag included. The envelope holds it as input and as result.
const LARGE = "ß".repeat(520_000);

export const MATRIX: readonly Case[] = [
  {
    name: "ASCII",
    path: "/plain?id=$id&tag=$tag",
    arrives: { postback: "/plain?id=$id&tag=$tag", pingback: "/plain?id=ID&tag=order-1" },
    tag: "order-1",
    input: { order: 1, note: "plain" },
  },
  {
    name: "UTF-8",
    path: "/größe/日本?q=ü€😀&tag=$tag",
    arrives: {
      postback: `${UTF8_PATH}$tag`,
      pingback: `${UTF8_PATH}%C3%9Cbergr%C3%B6%C3%9Fe%2F%E2%98%83%20%F0%9F%98%80`,
    },
    tag: "Übergröße/☃ 😀",
    input: { text: "Grüße, 日本, 😀, \u2028 and \u0000", schlüssel: ["\\", '"', "/"] },
  },
  {
    name: "1 MB body",
    path: "/large",
    arrives: { postback: "/large", pingback: "/large" },
    tag: "large",
    input: LARGE,
  },
  {
    name: "no tag",
    path: "/untagged/$tag?tag=$tag&id=$id",
    arrives: {
      postback: "/untagged/$tag?tag=$tag&id=$id",
      pingback: "/untagged/?tag=&id=ID",
    },
    input: null,
  },
  {
    name: "IDN host",
    isNamed: true,
    path: "/named?id=$id",
    arrives: { postback: "/named?id=$id", pingback: "/named?id=ID" },
    tag: "named",
    input: [1],
  },
  {
    name: "percent-encoded path and query",
    path: ESCAPED_PATH,
    arrives: { postback: ESCAPED_PATH, pingback: ESCAPED_PATH },
    tag: "escaped",
    input: [2],
  },
  {
    name: "default port",
    isAtDefaultPort: true,
    path: "/default?id=$id",
    arrives: { postback: "/default?id=$id", pingback: "/default?id=ID" },
    tag: "default",
    input: [3],
  },
  {
    name: "fragment",
    path: "/part?x=1#part-$id",
    arrives: { postback: "/part?x=1", pingback: "/part?x=1" },
    tag: "fragment",
    input: [4],
  },
  {
    name: "empty query",
    path: "/empty?",
    arrives: { postback: "/empty?", pingback: "/empty?" },
    tag: "empty",
    input: [5],
  },
];

/** The task of a case. Its URLs name the port, the default port too. */
export function taskOf(each: Case, place: Place & { readonly scheme?: "http" | "https" }): object {
  const { scheme = "http", address, port } = place;
  const host = each.isNamed === true ? IDN_HOST : address;
  const url = `${scheme}://${host}:${port}${each.path}`;
  const tag = each.tag === undefined ? {} : { tag: each.tag };
  return { input: each.input, ...tag, postback_url: url, pingback_url: url };
}

/** The Host header and the request target that a delivery of a case has to arrive with. */
export function arrivalOf(
  each: Case,
  { kind, id, place }: { readonly kind: Kind; readonly id: string; readonly place: Place },
): { readonly host: string; readonly target: string } {
  const name = each.isNamed === true ? IDN_HOST_ENCODED : place.address;
  const host = each.isAtDefaultPort === true ? name : `${name}:${place.port}`;
  return { host, target: each.arrives[kind].replace("ID", id) };
}
