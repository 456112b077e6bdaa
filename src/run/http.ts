import { createServiceClient } from "../deliver/service-client.ts";
import type { ServiceAnswer, ServiceClient } from "../deliver/service-client.ts";
import { serviceWaitMs } from "../deliver/service-retry.ts";
import { wait, withDeadline } from "../domain/clock/clock.ts";
import { excerptWithout, secretsOf } from "./excerpt.ts";
import { judgeAnswer, type AnswerFacts } from "./http-answer.ts";
import { toRunInput } from "./run-input.ts";
import type { Runner, RunOptions, RunOutcome, RunRequest, RunBounds } from "./runner.ts";
import type { ServiceParsing } from "./service-result.ts";
import type { ServiceWatch } from "./service-watch.ts";

/** The operator's configuration of an http type, and the clock. */
export interface HttpRunnerOptions extends RunBounds {
  /** http or https, without user and password. Its query may be a secret. */
  readonly url: string;
  /** By lower-case name; they may be secrets. Of the runner's own headers they replace `user-agent` alone. */
  readonly headers: Readonly<Record<string, string>>;
  readonly parsing: Omit<ServiceParsing, "bytesMax">;
  /** Notified of how each request went. */
  readonly watch?: Pick<ServiceWatch, "noteAnswer" | "noteFault">;
  /** From 0 to 1, without 1: spreads the waits of many runs. */
  readonly random?: () => number;
}

/**
 * The runner of `http` types (contract §6): one POST per task, with the JSON that a command reads from its stdin. A
 * 2xx makes its body the result, see {@link judgeAnswer}. After 429, 502, 503, 504 and answers that do not come, or
 * not whole, it asks again until the timeout, see {@link serviceWaitMs}. Anything else fails the run.
 * `Idempotency-Key` is the task's id: a service that sees it again may have worked on the task already. A timeout or
 * an abort breaks the request off.
 */
export function createHttpRunner(options: HttpRunnerOptions): Runner {
  const { url, headers, resultBytesMax, concurrency, timeoutMs, clock } = options;
  const target = new URL(url);
  const client = createServiceClient({ socketsMax: concurrency });
  const secrets = secretsOf(target, headers);
  const service: Service = {
    post: (request, signal) =>
      client.post(target, {
        headers: requestHeaders(headers, request),
        body: toRunInput(request),
        bytesMax: resultBytesMax,
        signal,
      }),
    excerpt: (body) => excerptWithout(secrets, body),
  };
  return {
    concurrency,
    run(request, { signal }) {
      if (signal.aborted) return Promise.resolve({ kind: "aborted" });
      return withDeadline(timeoutMs, { clock, signal }, (stop) =>
        askUntilDecided(request, { ...options, service, signal, stop }),
      );
    },
  };
}

interface Service {
  readonly post: (request: RunRequest, signal: AbortSignal) => ReturnType<ServiceClient["post"]>;
  readonly excerpt: (body: Buffer) => string;
}

interface RunContext extends HttpRunnerOptions, Pick<RunOptions, "signal"> {
  readonly service: Service;
  /** Aborted by whichever comes first: the requested end, or the timeout. */
  readonly stop: AbortSignal;
}

function requestHeaders(
  headers: HttpRunnerOptions["headers"],
  { id, trace }: RunRequest,
): Record<string, string> {
  return {
    "user-agent": "postbackd-runner/1",
    ...headers,
    "content-type": "application/json",
    "idempotency-key": id,
    ...(trace === null ? {} : { traceparent: trace.traceparent }),
    ...(trace?.tracestate ? { tracestate: trace.tracestate } : {}),
  };
}

async function askUntilDecided(request: RunRequest, context: RunContext): Promise<RunOutcome> {
  const { service, stop, signal, clock, watch, resultBytesMax, random = Math.random } = context;
  let last: ServiceAnswer | null = null;
  for (let attempts = 1; ; attempts++) {
    const answer = await service.post(request, stop);
    if (signal.aborted) return { kind: "aborted" };
    if (answer.kind !== "aborted") last = answer;
    const facts = answerFacts(last, { attempts, service });
    const parsing = { bytesMax: resultBytesMax, ...context.parsing };
    const verdict = await judgeAnswer(answer, { facts, ...parsing });
    if (verdict.kind === "decided") {
      watch?.noteAnswer();
      return verdict.outcome;
    }
    watch?.noteFault(answer.kind === "aborted" ? "no answer within the timeout" : faultOf(facts));
    const { retryAfter } = verdict;
    const failure = { failures: attempts, retryAfter, now: clock.now(), random: random() };
    await wait(serviceWaitMs(failure), { clock, signal: stop });
    if (signal.aborted) return { kind: "aborted" };
    if (stop.aborted) return timedOut(facts, context.timeoutMs);
  }
}

function answerFacts(
  answer: ServiceAnswer | null,
  { attempts, service }: { readonly attempts: number; readonly service: Service },
): AnswerFacts {
  const isStatusKnown = answer?.kind === "answered" || answer?.kind === "too_long";
  const isBroken = answer?.kind === "unreachable" || answer?.kind === "malformed";
  return {
    attempts,
    http_status: isStatusKnown ? answer.status : null,
    error: isBroken ? answer.error : null,
    response_excerpt: answer?.kind === "answered" ? service.excerpt(answer.body) : null,
  };
}

function faultOf({ error, http_status: status }: AnswerFacts): string {
  return error ?? `it answered ${status}`;
}

function timedOut(facts: AnswerFacts, timeoutMs: number): RunOutcome {
  const { http_status: status, error } = facts;
  const last = status === null ? "" : `; its last answer was ${status}`;
  const why = error === null ? last : `: ${error}`;
  const message = `The service gave no result within the timeout of ${timeoutMs / 1000} s${why}.`;
  return { kind: "timed_out", message, detail: { ...facts } };
}
