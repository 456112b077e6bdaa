import { JSON_TYPE, requestText } from "../kit/request.ts";

/** What an attacker sends, over how many connections. */
export interface Attack {
  /** How the request is used: the function of that name in attacker.ts says. */
  readonly shape: "repeat" | "burst" | "unread" | "hold" | "once";
  readonly connections: number;
  /** Method and path. */
  readonly line: string;
  readonly headers?: readonly string[];
  readonly body?: AttackBody;
  /** For the shape `once`: the bodies, each sent once. */
  readonly bodies?: readonly string[];
  /** Requests a second over all connections; without it the next one follows each answer. */
  readonly perSecond?: number;
  /** How many copies of the request are written at once, where it is more than one. */
  readonly pipelined?: number;
}

/** `start`, then `element` as often as `bytes` have room for, then `end`. ASCII. */
export interface AttackBody {
  readonly start: string;
  readonly element: string;
  readonly end: string;
  readonly bytes: number;
  /** In chunks of one byte, or without its last byte. */
  readonly sent?: "chunked" | "unfinished";
}

/** The orders of an attacker's process. */
export interface AttackOrder {
  readonly attack: Attack;
  /** The daemon's port, on 127.0.0.1. */
  readonly port: number;
  /** The addresses from which its connections come, in turn. */
  readonly from: readonly string[];
  readonly secret: string | undefined;
}

/** Numbers that are dear to read. */
export const NUMBERS = { start: "[", element: "1e9,", end: "0]" } as const;

/** The request exactly as sent, with this body unless it has its own. */
export function requestBytes({ attack, secret }: AttackOrder, given?: string): Buffer {
  const { line, headers = [], body } = attack;
  const text = given ?? (body && bodyText(body));
  if (text !== undefined && body?.sent === "chunked") {
    const chunkedHeaders = [...headers, JSON_TYPE, "Transfer-Encoding: chunked"];
    const head = requestText(line, { secret, headers: chunkedHeaders });
    return Buffer.from(head + chunked(text), "latin1");
  }
  const whole = Buffer.from(requestText(line, { secret, headers, body: text }), "latin1");
  return body?.sent === "unfinished" ? whole.subarray(0, -1) : whole;
}

export function bodyText({ start, element, end, bytes }: AttackBody): string {
  const room = bytes - start.length - end.length;
  return start + element.repeat(Math.floor(room / element.length)) + end;
}

/** ASCII text as chunks of one byte, and the one that ends it. */
export function chunked(text: string): string {
  return `${text.replaceAll(/[^]/g, "1\r\n$&\r\n")}0\r\n\r\n`;
}
