import type { HttpMessage } from "../kit/http-messages.ts";

const STATUS_CODE = /"status_code": ?(\d{5})/;
const HTTP_STATUS = /^HTTP\/1\.1 (\d{3})/;

/** The status code of an answer: the contract's where it has one, else HTTP's. */
export function codeOf({ head, body }: HttpMessage): string {
  const code = STATUS_CODE.exec(body.toString("latin1", 0, 600))?.[1];
  return code ?? HTTP_STATUS.exec(head)?.[1] ?? "unreadable";
}

/** `ok` for 200, the status code for another answer. */
export function outcomeOf(answer: HttpMessage): string {
  return answer.head.startsWith("HTTP/1.1 200") ? "ok" : codeOf(answer);
}
