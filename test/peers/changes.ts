import { exchange } from "../helpers/raw-http.ts";
import type { Phase } from "./deliveries.ts";
import type { Kind } from "./matrix.ts";
import type { PeerAddress } from "./peer-process.ts";
import { headerOf } from "./relay.ts";
import type { WireRequest } from "./relay.ts";

/** One thing that is done to a request on its way, which the peer has to notice. */
export interface Change {
  readonly name: string;
  readonly kinds: readonly Kind[];
  readonly phases: readonly Phase[];
  readonly change: (request: WireRequest) => WireRequest;
}

const BOTH: readonly Kind[] = ["postback", "pingback"];

/** In which phases each is tried. They fit the case of the matrix with escapes in its URL. */
export const CHANGES: readonly Change[] = [
  {
    name: "one byte of the body changed",
    kinds: ["postback"],
    phases: ["normal", "rotating"],
    change: (request) => ({ ...request, body: withDigitChanged(request.body) }),
  },
  {
    name: "a byte added to the body",
    kinds: ["postback"],
    phases: ["normal"],
    change(request) {
      const body = Buffer.concat([request.body, Buffer.from("\n")]);
      const length = { "content-length": () => String(body.length) };
      return { ...withHeaders(request, length), body };
    },
  },
  {
    name: "one byte of the path changed",
    kinds: ["pingback"],
    phases: ["normal", "rotating"],
    change: (request) => ({ ...request, target: request.target.replace("/a", "/b") }),
  },
  {
    name: "an escape of the path decoded",
    kinds: ["pingback"],
    phases: ["normal"],
    change: (request) => ({ ...request, target: request.target.replace("%24", "$") }),
  },
  {
    name: "one byte of the query changed",
    kinds: ["pingback"],
    phases: ["normal", "rotating"],
    change: (request) => ({ ...request, target: request.target.replace("?x=", "?y=") }),
  },
  {
    name: "another Host",
    kinds: ["pingback"],
    phases: ["normal"],
    change: (request) => withHeaders(request, { host: () => "other.example" }),
  },
  {
    name: "one digit of the signature changed",
    kinds: BOTH,
    phases: ["normal", "rotating"],
    change: (request) => withHeaders(request, { "x-signature": withLastDigitChanged }),
  },
  {
    name: "no signature",
    kinds: BOTH,
    phases: ["normal"],
    change: (request) => withHeaders(request, { "x-signature": () => null }),
  },
  {
    name: "the two signatures in each other's place",
    kinds: BOTH,
    phases: ["rotating"],
    change: (request) =>
      withHeaders(request, {
        "x-signature": () => headerOf(request, "x-signature-next"),
        "x-signature-next": () => headerOf(request, "x-signature"),
      }),
  },
  {
    name: "one digit of the next signature changed",
    kinds: BOTH,
    phases: ["rotating"],
    change: (request) => withHeaders(request, { "x-signature-next": withLastDigitChanged }),
  },
  {
    name: "no next signature",
    kinds: BOTH,
    phases: ["rotating"],
    change: (request) => withHeaders(request, { "x-signature-next": () => null }),
  },
];

// What was a digit stays one: a body that is no JSON any more would be refused for that.
function withDigitChanged(body: Buffer): Buffer {
  const changed = Buffer.from(body);
  changed.write("3", changed.lastIndexOf("2"));
  return changed;
}

function withLastDigitChanged(signature: string): string {
  return signature.replace(/.$/, (digit) => (digit === "0" ? "1" : "0"));
}

/** By header, in lower case: what its value becomes. */
export type HeaderChanges = Readonly<Record<string, (value: string) => string | null>>;

/** The request with these headers changed; one that becomes null is left out. */
export function withHeaders(request: WireRequest, changes: HeaderChanges): WireRequest {
  const headers = request.headers.flatMap(([name, value]) => {
    const changed = changes[name] === undefined ? value : changes[name](value);
    return changed === null ? [] : [[name, changed] as const];
  });
  return { ...request, headers };
}

/** Sends a request to a peer, on a connection of its own; gives the status of the answer. */
export async function replay(at: PeerAddress, request: WireRequest): Promise<number> {
  const { method, target, headers, body } = request;
  const lines = headers.map(([name, value]) => `${name}: ${value}`);
  const raw = { method, target, headers: lines, host: false, body } as const;
  return (await exchange(`http://${at.host}:${at.port}`, raw)).status;
}
