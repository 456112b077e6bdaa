/** One row of the status table: the words that a client sees and the HTTP status with which a request ends. */
export interface StatusRow {
  readonly message: string;
  /** HTTP status at request level; null for codes that only tasks have. */
  readonly http: number | null;
}

/** The only source of codes, messages and HTTP statuses (status-codes.md). `NAME` and `REASON` are filled in at use. */
export const STATUS_TABLE = {
  20000: { message: "Ok.", http: 200 },
  20100: { message: "Task Created.", http: 200 },
  40000: { message: "Bad Request.", http: 400 },
  40006: { message: "Too Many Tasks.", http: 400 },
  40100: { message: "Authentication failed.", http: 401 },
  40101: { message: "API key revoked.", http: 401 },
  40102: { message: "Account disabled.", http: 401 },
  40300: { message: "HTTPS Required.", http: 403 },
  40301: { message: "Forbidden.", http: 403 },
  40400: { message: "Not Found.", http: 404 },
  40401: { message: "Task Not Found.", http: 404 },
  40403: { message: "Results Expired.", http: 410 },
  40500: { message: "Method Not Allowed.", http: 405 },
  40501: { message: "Invalid Field: 'NAME'. REASON", http: 400 },
  40502: { message: "POST Data Is Empty.", http: 400 },
  40503: { message: "POST Data Is Invalid.", http: 400 },
  40506: { message: "Unknown Field: 'NAME'.", http: null },
  40601: { message: "Task In Progress.", http: null },
  40602: { message: "Task In Queue.", http: null },
  40800: { message: "Wait Timed Out.", http: 408 },
  40901: { message: "Task Cancelled.", http: null },
  40902: { message: "Task Not Cancellable.", http: 409 },
  40910: { message: "Active Key Limit Reached.", http: 409 },
  41300: { message: "Payload Too Large.", http: 413 },
  41500: { message: "Unsupported Media Type.", http: 415 },
  42200: { message: "Idempotency-Key Reused.", http: 422 },
  42900: { message: "Too Many Requests.", http: 429 },
  50000: { message: "Internal Error.", http: 500 },
  50010: { message: "Task Execution Failed.", http: null },
  50300: { message: "Service Unavailable.", http: 503 },
  50401: { message: "Task Timed Out.", http: null },
  50402: { message: "Task Expired.", http: null },
  50700: { message: "Insufficient Storage.", http: 507 },
} as const satisfies Record<number, StatusRow>;

export type StatusCode = keyof typeof STATUS_TABLE;

/** The codes with which an entire request can end: the codes that have an HTTP status. */
export type RequestStatusCode = {
  [Code in StatusCode]: (typeof STATUS_TABLE)[Code]["http"] extends number ? Code : never;
}[StatusCode];

/** The message of a code, with the field's name and the reason filled in where the table has them. */
export function statusMessage(
  code: StatusCode,
  blanks?: { readonly name: string; readonly reason?: string },
): string {
  const { message } = STATUS_TABLE[code];
  if (blanks === undefined) return message;
  // One pass and a function, because a field may be called REASON, or `$&`.
  const fill = (blank: string): string => (blank === "NAME" ? blanks.name : (blanks.reason ?? ""));
  return message.replace(/NAME|REASON/g, fill).trimEnd();
}

/** True for codes that count as `tasks_error` in an envelope: 40000 and above, except codes of waiting tasks. */
export function isTaskError(code: StatusCode): boolean {
  return code >= 40000 && code !== 40601 && code !== 40602;
}

/** One finding about a request; `pointer` is a JSON pointer (RFC 6901) into its body. */
export interface StatusDetail {
  readonly pointer: string;
  readonly detail: string;
}

/** Headers that go with an answer, in lower case; a list stands for one line each. */
export type ResponseHeaders = Readonly<Record<string, string | readonly string[]>>;

/** A refusal that the caller can fix: it carries a code of the table and is safe to show. */
export class StatusError extends Error {
  override readonly name = "StatusError" as const;
  readonly code: RequestStatusCode;
  readonly details: readonly StatusDetail[];
  readonly headers: ResponseHeaders;

  constructor(
    code: RequestStatusCode,
    more: {
      readonly message?: string;
      /** The remedy for the entire request, if it has no details. */
      readonly detail?: string;
      readonly details?: readonly StatusDetail[];
      readonly headers?: ResponseHeaders;
    } = {},
  ) {
    super(more.message ?? statusMessage(code));
    this.code = code;
    const whole = more.detail === undefined ? [] : [{ pointer: "", detail: more.detail }];
    this.details = more.details ?? whole;
    this.headers = more.headers ?? {};
  }

  get httpStatus(): number {
    return STATUS_TABLE[this.code].http;
  }
}
