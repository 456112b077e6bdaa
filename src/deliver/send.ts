import type { Socket } from "node:net";
import type { SecureContext } from "node:tls";

import type { Clock } from "../domain/clock/clock.ts";
import type { AttemptResult } from "../domain/webhook/delivery.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";
import { judgeAddresses } from "../domain/webhook/webhook-url.ts";
import type { AddressesVerdict, UrlPolicy, WebhookTarget } from "../domain/webhook/webhook-url.ts";
import { AttemptsInFlight, OpenAttempt } from "./attempt.ts";
import {
  type Connection,
  ConnectionPool,
  type Dialed,
  connectionKey,
  dialTcp,
  dialTls,
} from "./connections.ts";
import { exchange } from "./exchange.ts";
import type { Exchange } from "./exchange.ts";
import { type Resolver, toDialOrder } from "./resolver.ts";
import { trustContext } from "./trust.ts";

export interface SenderOptions {
  readonly clock: Clock;
  readonly resolver: Resolver;
  /** Called at every attempt, because the machine's own addresses may change. */
  readonly policy: () => UrlPolicy;
  /** Covers everything from resolving the name to reading the status line. */
  readonly timeoutMs: number;
  /** Authorities to trust as well, as PEM. */
  readonly authorities?: readonly string[];
}

const ADDRESSES_TRIED_MAX = 3;
const ADDRESSES_SHOWN_MAX = 16;

interface Dialling {
  readonly request: SendRequest;
  readonly attempt: OpenAttempt;
}

/** Either what the next step needs, or the end of the attempt. */
type Step<T> =
  | { readonly kind: "done"; readonly value: T }
  | { readonly kind: "end"; readonly result: AttemptResult };

/**
 * Sends webhooks: the only part of the program that opens connections for them. Each attempt resolves its host again
 * and judges every address. It connects only to accepted addresses. It may use a connection that an earlier attempt of the
 * account left open to such an address and the same port. It follows no redirect, uses no proxy and decompresses nothing.
 */
export class Sender {
  readonly #deps: SenderOptions;
  readonly #pool: ConnectionPool;
  readonly #inFlight = new AttemptsInFlight();
  // One context for all connections: one each would cost 20 ms and hold its own copy of the trusted certificates.
  #secureContext: SecureContext | null = null;

  constructor(deps: SenderOptions) {
    this.#deps = deps;
    this.#pool = new ConnectionPool(deps);
  }

  /** Never rejects: every end is a result. It takes the timeout at most, plus a second for the body of a response. */
  async send(request: SendRequest): Promise<AttemptResult> {
    const attempt = new OpenAttempt(this.#deps);
    this.#inFlight.add(attempt);
    try {
      return await this.#attempt(request, attempt);
    } catch {
      // This is our own fault. The attempt still has to end as a value, or its delivery would stay in flight.
      return attempt.failed("internal error");
    } finally {
      attempt.end();
      this.#inFlight.remove(attempt);
    }
  }

  /** Closes idle connections and keeps none from now on; attempts in flight go on to their end. */
  close(): void {
    this.#pool.close();
  }

  /** Breaks off everything in flight: an attempt without a status ends as `interrupted`. */
  abort(): void {
    this.#inFlight.interruptAll();
  }

  async #attempt(request: SendRequest, attempt: OpenAttempt): Promise<AttemptResult> {
    const vetted = await this.#vet(request, attempt);
    if (vetted.kind === "end") return vetted.result;
    const kept = this.#takeKept(request, vetted.value);
    if (kept !== null) {
      const answer = await this.#exchange(kept, { request, attempt });
      // The receiver closed the idle connection just as it was used (RFC 9112 §9.3.1): it read nothing, or died
      // before it could answer. Delivery is at least once, and a retry a minute later would be a poor answer to a
      // race, so the same attempt sends once more on a new connection.
      const isStale = answer.kind === "broken" && answer.isUnanswered;
      if (!isStale) return toResult(answer, attempt);
    }
    const connection = await this.#dialAny(request, { addresses: vetted.value, attempt });
    if (connection.kind === "end") return connection.result;
    return toResult(await this.#exchange(connection.value, { request, attempt }), attempt);
  }

  /** The addresses that this attempt may use, in the order to try them; at least one. */
  async #vet(
    request: SendRequest,
    attempt: OpenAttempt,
  ): Promise<Step<readonly [string, ...string[]]>> {
    const { target } = request;
    const resolved = target.isAddress ? [target.host] : await this.#resolve(request, attempt);
    if (!isList(resolved)) return { kind: "end", result: resolved };
    const verdict = judgeAddresses(target, resolved, this.#deps.policy());
    if (verdict.kind === "refused") {
      return { kind: "end", result: toRefused(target, { verdict, resolved, attempt }) };
    }
    // Ordered once more, because the judge has turned IPv4-mapped addresses into IPv4.
    const [first, ...others] = toDialOrder(verdict.addresses).slice(0, ADDRESSES_TRIED_MAX);
    if (first === undefined) return { kind: "end", result: attempt.failed("no addresses") };
    return { kind: "done", value: [first, ...others] };
  }

  async #resolve(
    { target, accountId }: SendRequest,
    attempt: OpenAttempt,
  ): Promise<readonly string[] | AttemptResult> {
    const { signal } = attempt;
    // The wait for a turn counts: the attempt's time includes resolving the name.
    const resolution = await attempt.timed("dns", () =>
      this.#deps.resolver.resolve(target.host, { signal, accountId: accountId ?? null }),
    );
    if (signal.aborted) return attempt.wasCut();
    return resolution.kind === "failed" ? attempt.failed(resolution.error) : resolution.addresses;
  }

  #takeKept(request: SendRequest, addresses: readonly string[]): Connection | null {
    for (const address of addresses) {
      const kept = this.#pool.take(connectionKey(request, address));
      if (kept !== null) return kept;
    }
    return null;
  }

  async #dialAny(
    request: SendRequest,
    { addresses, attempt }: { addresses: readonly [string, ...string[]]; attempt: OpenAttempt },
  ): Promise<Step<Connection>> {
    let error = "";
    for (const [index, address] of addresses.entries()) {
      attempt.address = address;
      // An address that swallows packets must leave time for those after it; the last one gets all that is left.
      const untried = addresses.length - index;
      const limitMs = untried > 1 ? attempt.leftMs / untried : null;
      const tcp = await attempt.timed("connect", () =>
        dialTcp(
          { address, port: request.target.port },
          { signal: attempt.signal, clock: this.#deps.clock, limitMs },
        ),
      );
      if (tcp.kind === "open") return await this.#secure(tcp.socket, { request, attempt }, address);
      if (tcp.kind === "cut") return { kind: "end", result: attempt.wasCut() };
      error = tcp.error;
    }
    return { kind: "end", result: attempt.failed(error) };
  }

  async #secure(socket: Socket, to: Dialling, address: string): Promise<Step<Connection>> {
    const { request, attempt } = to;
    const { target } = request;
    const key = connectionKey(request, address);
    if (target.scheme === "http") return { kind: "done", value: { socket, address, key } };
    this.#secureContext ??= trustContext(this.#deps.authorities);
    const context = this.#secureContext;
    const secured: Dialed<Socket> = await attempt.timed("tls", () =>
      dialTls(socket, { ...target, context, signal: attempt.signal }),
    );
    if (secured.kind === "open") {
      return { kind: "done", value: { socket: secured.socket, address, key } };
    }
    const isCut = secured.kind === "cut";
    return { kind: "end", result: isCut ? attempt.wasCut() : attempt.failed(secured.error) };
  }

  async #exchange(connection: Connection, { request, attempt }: Dialling): Promise<Exchange> {
    attempt.address = connection.address;
    const { clock } = this.#deps;
    const answer = await attempt.timed("answer", () =>
      exchange(connection.socket, request, { clock, limit: attempt }),
    );
    if (answer.kind === "answered" && answer.isReusable) {
      this.#pool.put(connection, { hintMs: answer.keepAliveMs });
    }
    return answer;
  }
}

function toResult(answer: Exchange, attempt: OpenAttempt): AttemptResult {
  switch (answer.kind) {
    case "cut":
      return attempt.wasCut();
    case "broken":
      return attempt.failed(answer.error, answer.status);
    case "answered": {
      const error = statusFailure(answer.status);
      return attempt.result(error === null ? "delivered" : "failed", {
        httpStatus: answer.status,
        error,
        responseExcerpt: answer.excerpt,
        retryAfter: answer.retryAfter,
        firstByteMs: answer.firstByteMs,
      });
    }
  }
}

function statusFailure(status: number): string | null {
  if (status >= 200 && status <= 299) return null;
  const isRedirect = status >= 300 && status <= 399;
  return isRedirect ? "redirects are not followed" : "status is not 2xx";
}

function toRefused(
  target: WebhookTarget,
  facts: {
    readonly verdict: Extract<AddressesVerdict, { kind: "refused" }>;
    readonly resolved: readonly string[];
    readonly attempt: OpenAttempt;
  },
): AttemptResult {
  const { rule, reason, address } = facts.verdict;
  // The refused address is always among those shown, however long the answer was.
  const others = facts.resolved.filter((other) => other !== address);
  const isShort = facts.resolved.length <= ADDRESSES_SHOWN_MAX;
  const addresses = isShort ? facts.resolved : [address, ...others].slice(0, ADDRESSES_SHOWN_MAX);
  return facts.attempt.result("refused", {
    error: reason,
    refusal: { host: target.host, addresses, rule },
  });
}

function isList(value: readonly string[] | AttemptResult): value is readonly string[] {
  return Array.isArray(value);
}
