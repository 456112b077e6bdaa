/** A request of an attack, exactly as sent. */
export interface AttackRequest {
  /** Request line and headers, without Content-Length and without the empty line. ASCII. */
  readonly head: string;
  /** Null: no body. */
  readonly body: AttackBody | null;
}

/** `start`, then `element` as often as `bytes` have room for, then `end`. ASCII. */
export interface AttackBody {
  readonly start: string;
  readonly element: string;
  readonly end: string;
  readonly bytes: number;
}

/** The orders of an attacker's process. */
export interface AttackJob {
  /** How the request is used: the file of that name says. */
  readonly shape: "repeat" | "burst" | "unread" | "hold" | "endless" | "chunks" | "post";
  /** The daemon's port, on 127.0.0.1. */
  readonly port: number;
  /** The addresses from which its connections come, in turn. */
  readonly from: readonly [string, ...string[]];
  readonly connections: number;
  readonly request: AttackRequest;
  /** Requests a second over all connections; null: the next one follows each answer. */
  readonly perSecond: number | null;
  /** How many copies of the request are written at once. */
  readonly pipelined: number;
  /** For the shape `post`: the bodies to send with the request's head, each once. */
  readonly bodies: readonly string[];
}

/** How often an attacker got each status code, and how often it was `refused` or `closed` without one. */
export type AttackTally = Readonly<Record<string, number>>;

/** An attack under way, in a process of its own. */
export interface Attack {
  readonly job: AttackJob;
  /** The whole request; for the shapes `endless` and `burst` it includes the last byte too. */
  readonly request: Buffer;
  readonly tally: (what: string, times?: number) => void;
  /** Aborted at the end of the attack. */
  readonly signal: AbortSignal;
  /** To be called when everything that it holds or posts is in place. */
  readonly underWay: () => void;
}

/** The request with its length, exactly as sent. */
export function requestBytes({ head, body }: AttackRequest, given?: string): Buffer {
  const text = given ?? (body === null ? "" : bodyText(body));
  const length = text === "" ? "" : `\r\nContent-Length: ${text.length}`;
  return Buffer.from(`${head}${length}\r\n\r\n${text}`, "latin1");
}

/** The body alone. */
export function bodyText(body: AttackBody): string {
  const room = body.bytes - body.start.length - body.end.length;
  return body.start + body.element.repeat(Math.floor(room / body.element.length)) + body.end;
}
