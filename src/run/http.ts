import { type ServiceAnswer, createServiceClient } from "../deliver/service-client.ts";
import { serviceWaitMs } from "../deliver/service-retry.ts";
import { type Clock, wait, withDeadline } from "../domain/clock/clock.ts";
import type { Logger } from "../domain/log.ts";
import {
  type RunBounds,
  type RunOptions,
  type RunOutcome,
  type RunRequest,
  type Runner,
  toRunInput,
} from "./runner.ts";
import { type ServiceParsing, parseServiceAnswer } from "./service-result.ts";

export interface HttpRunnerOptions extends RunBounds {
  /** http or https, without user and password. Its query may be a secret. */
  readonly url: string;
  /** By lower-case name; they may be secrets. Of the runner's own headers they replace `user-agent` alone. */
  readonly headers: Readonly<Record<string, string>>;
  readonly parsing: Omit<ServiceParsing, "bytesMax">;
  readonly watch?: Pick<ServiceWatch, "noteAnswer" | "noteFault">;
  /** From 0 to 1, without 1: spreads the waits of many runs. */
  readonly random?: () => number;
}

/**
 * The runner of `http` types (runners.md): one POST per task, with the JSON that a command reads from its stdin. A
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
  const excerpt = (body: Buffer): string => excerptWithout(secrets, body);
  return {
    concurrency,
    run(request, { signal }) {
      if (signal.aborted) return Promise.resolve({ kind: "aborted" });
      return withDeadline(timeoutMs, { clock, signal }, (stop) => {
        const post = (): Promise<ServiceAnswer> =>
          client.post(target, {
            headers: requestHeaders(headers, request),
            body: toRunInput(request),
            bytesMax: resultBytesMax,
            signal: stop,
          });
        return askUntilDecided({ ...options, post, excerpt, signal, stop });
      });
    },
  };
}

interface RunContext extends HttpRunnerOptions, Pick<RunOptions, "signal"> {
  readonly post: () => Promise<ServiceAnswer>;
  readonly excerpt: (body: Buffer) => string;
  /** Aborted when the run is to stop, or at the timeout. */
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

async function askUntilDecided(context: RunContext): Promise<RunOutcome> {
  const { post, excerpt, stop, signal, clock, watch, random = Math.random } = context;
  let last: ServiceAnswer | null = null;
  for (let attempts = 1; ; attempts++) {
    const answer = await post();
    if (signal.aborted) return { kind: "aborted" };
    if (answer.kind !== "aborted") last = answer;
    const facts = answerFacts(last, attempts, excerpt);
    const bytesMax = context.resultBytesMax;
    const verdict = await judgeAnswer(answer, { facts, bytesMax, ...context.parsing });
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
  attempts: number,
  excerpt: RunContext["excerpt"],
): AnswerFacts {
  const isStatusKnown = answer?.kind === "answered" || answer?.kind === "too_long";
  const isBroken = answer?.kind === "unreachable" || answer?.kind === "malformed";
  return {
    attempts,
    http_status: isStatusKnown ? answer.status : null,
    error: isBroken ? answer.error : null,
    response_excerpt: answer?.kind === "answered" ? excerpt(answer.body) : null,
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

/** The last answer of a service in one run, as `error.detail` shows it. */
interface AnswerFacts {
  readonly attempts: number;
  /** Null where no answer came. */
  readonly http_status: number | null;
  /** Why no readable answer came; null where one did. */
  readonly error: string | null;
  readonly response_excerpt: string | null;
}

type AnswerVerdict =
  | { readonly kind: "decided"; readonly outcome: RunOutcome }
  | { readonly kind: "ask_again"; readonly retryAfter: string | undefined };

// The statuses that mean "not now" (runners.md).
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * Decides what follows from an answer. The body of a 2xx becomes the result by the rule for a command's stdout. The
 * Content-Type does not matter, except that a body declared as JSON that is not JSON fails the run, because it was not
 * meant as text. A compressed body fails it too: the request asked for a plain one.
 */
async function judgeAnswer(answer: ServiceAnswer, options: Judging): Promise<AnswerVerdict> {
  const { facts, bytesMax } = options;
  switch (answer.kind) {
    case "aborted":
    case "unreachable":
      return { kind: "ask_again", retryAfter: undefined };
    case "malformed":
      return failed(`The service cannot be understood: ${answer.error}.`, facts);
    case "too_long":
      return failed(
        `The service answered more than ${bytesMax} bytes, the limit of a result.`,
        facts,
      );
    case "answered":
      return judgeStatus(answer, options);
  }
}

type Judging = ServiceParsing & { readonly facts: AnswerFacts };

type Answered = Extract<ServiceAnswer, { kind: "answered" }>;

async function judgeStatus(answer: Answered, options: Judging): Promise<AnswerVerdict> {
  const { status, headers } = answer;
  if (status >= 200 && status <= 299) return judgeResult(answer, options);
  if (PASSING.has(status)) return { kind: "ask_again", retryAfter: headers["retry-after"] };
  const isRedirect = status >= 300 && status <= 399;
  const why = isRedirect ? ", and redirects are not followed" : "";
  return failed(`The service responded with ${status}${why}.`, options.facts);
}

async function judgeResult(
  { headers, body }: Answered,
  { facts, ...parsing }: Judging,
): Promise<AnswerVerdict> {
  const { "content-encoding": encoding = "identity", "content-type": type = "" } = headers;
  if (body.length > 0 && encoding.toLowerCase() !== "identity") {
    return failed(
      "The service's answer is compressed, although none of that was asked for.",
      facts,
    );
  }
  const { result, isText } = await parseServiceAnswer(body, parsing);
  if (result.kind === "fault") return failed(`The service's answer ${result.reason}.`, facts);
  if (isText && isDeclaredJson(type)) {
    return failed("The service's response is declared as JSON and is not JSON.", facts);
  }
  return { kind: "decided", outcome: { kind: "completed", resultText: result.resultText } };
}

function isDeclaredJson(contentType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

function failed(message: string, facts: AnswerFacts): AnswerVerdict {
  return { kind: "decided", outcome: { kind: "failed", message, detail: { ...facts } } };
}

const EXCERPT_BYTES_MAX = 4096;
// How much of the answer is searched: some of it is struck out.
const LOOKED_AT_BYTES_MAX = 2 * EXCERPT_BYTES_MAX;

// Shorter ones are words such as "1" or "all", and striking them would spoil every text.
const SECRET_LENGTH_MIN = 4;

/**
 * Parts of the configuration that a response may repeat: header values, and the URL's query whole
 * and in parts, as written and as decoded. Longest first.
 */
function secretsOf(url: URL, headers: Readonly<Record<string, string>>): readonly string[] {
  const query = url.search.slice(1);
  const values = Object.values(headers);
  const found = [
    ...values,
    // The credentials after "Bearer" and "Basic".
    ...values.flatMap((value) => value.split(" ")),
    query,
    ...query.split("&").map((pair) => pair.slice(pair.indexOf("=") + 1)),
    ...url.searchParams.values(),
  ];
  return [...new Set(found)]
    .filter(({ length }) => length >= SECRET_LENGTH_MIN)
    .toSorted((left, right) => right.length - left.length);
}

/**
 * The beginning of a body as well-formed text of at most 4 KiB, for the client that posted the task. A service that fails may
 * show the request it got, as debug pages do: `secrets`, the longest of them first, are struck out. `body` should be
 * longer than the text that is shown, so that the limit cuts no secret in two and shows a part of it.
 */
export function excerptWithout(secrets: readonly string[], body: Uint8Array): string {
  let text = decodeStart(body.subarray(0, LOOKED_AT_BYTES_MAX));
  for (const secret of secrets) text = text.replaceAll(secret, "[hidden]");
  // The end may hold the beginning of a secret that goes on behind it.
  const [longest = ""] = secrets;
  if (body.length >= LOOKED_AT_BYTES_MAX) text = text.slice(0, -longest.length || undefined);
  const bytes = Buffer.from(text);
  return bytes.length <= EXCERPT_BYTES_MAX
    ? text.toWellFormed()
    : decodeStart(bytes.subarray(0, EXCERPT_BYTES_MAX));
}

// `stream` leaves out a character that the limit cuts in two, instead of showing it as broken.
function decodeStart(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}

interface ServiceWatchOptions {
  readonly type: string;
  readonly clock: Clock;
  readonly log: Logger;
}

// A restart of the service takes less.
const AWAY_MS = 10_000;

/** Logs once when no request has settled a run for 10 s, and once when one does again. */
export class ServiceWatch {
  readonly #options: ServiceWatchOptions;
  /** Monotonic; null while the last request was settled. */
  #awaySince: number | null = null;
  #isTold = false;

  constructor(options: ServiceWatchOptions) {
    this.#options = options;
  }

  /** A request settled a run, whether it succeeded or failed. */
  noteAnswer(): void {
    const { type, log } = this.#options;
    if (this.#isTold)
      log.info({ type, away_s: this.#awayMs() / 1000 }, "the service answers again");
    this.#awaySince = null;
    this.#isTold = false;
  }

  /** A request must be repeated, or ran into the timeout; `reason` holds no URL and no header. */
  noteFault(reason: string): void {
    const { type, log } = this.#options;
    if (this.#isTold || this.#awayMs() < AWAY_MS) return;
    this.#isTold = true;
    log.warn(
      { type, reason },
      "the service of this type has given no result for 10 s; it is asked again until each task's timeout",
    );
  }

  #awayMs(): number {
    const now = this.#options.clock.monotonic();
    this.#awaySince ??= now;
    return Math.round(now - this.#awaySince);
  }
}
