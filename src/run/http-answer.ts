import type { ServiceAnswer } from "../deliver/service-client.ts";
import type { RunOutcome } from "./runner.ts";
import { parseServiceAnswer, type ServiceParsing } from "./service-result.ts";

/** The last answer of a service in one run, as `error.detail` shows it. */
export interface AnswerFacts {
  /** Requests so far. */
  readonly attempts: number;
  /** Null where no answer came. */
  readonly http_status: number | null;
  /** Why no readable answer came; null where one did. */
  readonly error: string | null;
  /** The beginning of its body. */
  readonly response_excerpt: string | null;
}

/** The consequence of an answer for a run: its end, or another request. */
type AnswerVerdict =
  | { readonly kind: "decided"; readonly outcome: RunOutcome }
  | { readonly kind: "ask_again"; readonly retryAfter: string | undefined };

// The statuses that mean "not now" (contract §6).
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * Decides what follows from an answer. The body of a 2xx becomes the result by the rule for a command's stdout,
 * whatever its Content-Type says, with one exception: a body that is declared as JSON and is not JSON fails the run,
 * because nobody meant to send it as text. A compressed body fails it too: the request asked for a plain one.
 */
export async function judgeAnswer(answer: ServiceAnswer, options: Judging): Promise<AnswerVerdict> {
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
  return failed(`The service answered ${status}${why}.`, options.facts);
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
    return failed("The service's answer is declared as JSON and is none.", facts);
  }
  return { kind: "decided", outcome: { kind: "completed", resultText: result.resultText } };
}

function isDeclaredJson(contentType: string): boolean {
  return /^application\/(?:[\w.-]+\+)?json\s*(?:;|$)/i.test(contentType);
}

function failed(message: string, facts: AnswerFacts): AnswerVerdict {
  return { kind: "decided", outcome: { kind: "failed", message, detail: { ...facts } } };
}
