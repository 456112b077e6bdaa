import { z } from "zod";

/** A request of an attack, as it goes over the wire. */
const attackRequest = z.object({
  /** Request line and headers, without Content-Length and without the empty line. ASCII. */
  head: z.string(),
  /** `start`, then `element` as often as `bytes` have room for, then `end`; null: no body. ASCII. */
  body: z
    .object({ start: z.string(), element: z.string(), end: z.string(), bytes: z.number() })
    .nullable(),
});

/** A request of an attack, as it goes over the wire. */
export type AttackRequest = Readonly<z.infer<typeof attackRequest>>;

export const SHAPES = ["repeat", "burst", "unread", "hold", "endless", "chunks", "post"] as const;

export const attackJob = z.object({
  /** What is done with the request: the file of that name says. */
  shape: z.enum(SHAPES),
  /** Of the daemon, on 127.0.0.1. */
  port: z.number(),
  /** The addresses that its connections come from, in turn. */
  from: z.tuple([z.string()], z.string()),
  connections: z.number(),
  request: attackRequest,
  /** Requests a second over all connections; null: the next one follows each answer. */
  perSecond: z.number().nullable(),
  /** How often the request is written at once. */
  pipelined: z.number(),
  /** Of the shape `post`: the bodies that are sent with the request's head, each once. */
  bodies: z.array(z.string()),
});

/** What an attacker's process is to do. */
export type AttackJob = Readonly<z.infer<typeof attackJob>>;

export const attackTally = z.record(z.string(), z.number());

/** How often an attacker got each status code, and how often it was `refused` or `closed` without one. */
export type AttackTally = Readonly<z.infer<typeof attackTally>>;

/** An attack under way, in a process of its own. */
export interface Attack {
  readonly job: AttackJob;
  /** The whole request; of the shape `endless` and `burst` all of it, the last byte too. */
  readonly request: Buffer;
  readonly tally: (what: string, times?: number) => void;
  /** Aborted when the attack is to end. */
  readonly signal: AbortSignal;
  /** To be called when all that it holds or has posted is in place. */
  readonly underWay: () => void;
}

/** The request with its length, as it goes over the wire. */
export function requestBytes({ head, body }: AttackRequest, given?: string): Buffer {
  const text = given ?? (body === null ? "" : bodyText(body));
  const length = text === "" ? "" : `\r\nContent-Length: ${text.length}`;
  return Buffer.from(`${head}${length}\r\n\r\n${text}`, "latin1");
}

/** The body alone. */
export function bodyText(body: NonNullable<AttackRequest["body"]>): string {
  const room = body.bytes - body.start.length - body.end.length;
  return body.start + body.element.repeat(Math.floor(room / body.element.length)) + body.end;
}
