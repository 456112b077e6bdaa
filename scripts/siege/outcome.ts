import type { HttpMessage } from "../kit/http-messages.ts";

/** How often each outcome came: a status code, or what came instead (`closed`, `refused`, `unanswered`). */
export type Tally = Record<string, number>;

export function countUp(tally: Tally, what: string, times = 1): void {
  tally[what] = (tally[what] ?? 0) + times;
}

const STATUS_CODE = /"status_code": ?(\d{5})/;
const HTTP_STATUS = /^HTTP\/1\.1 (\d{3})/;

/** The status code of an answer: the contract's where it has one, else HTTP's. */
export function codeOf({ head, body }: HttpMessage): string {
  const code = STATUS_CODE.exec(body.toString("latin1", 0, 600))?.[1];
  return code ?? HTTP_STATUS.exec(head)?.[1] ?? "unreadable";
}

/** `ok` for 200, the status code for another answer, `closed` for none. */
export function outcomeOf(answer: HttpMessage | null): string {
  if (answer === null) return "closed";
  return answer.head.startsWith("HTTP/1.1 200") ? "ok" : codeOf(answer);
}
