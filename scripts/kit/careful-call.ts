/** A whole answer of the API. */
export interface CarefulAnswer {
  readonly status: number;
  readonly isReplayed: boolean;
  readonly text: string;
  /** `X-Request-Id`. */
  readonly requestId: string;
}

/** A request of an account or a worker. */
export interface CarefulRequest {
  /** Its key or token. */
  readonly secret: string;
  /** POST unless given. */
  readonly method?: "GET" | "POST" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body?: string;
}

/** Asks. Null when the connection broke before the whole answer was there, as when the daemon is killed. */
export async function carefulCall(
  url: string,
  { secret, method = "POST", ...request }: CarefulRequest,
): Promise<CarefulAnswer | null> {
  const type = request.body === undefined ? {} : { "content-type": "application/json" };
  const headers = { ...type, ...request.headers, authorization: `Bearer ${secret}` };
  try {
    const response = await fetch(url, { ...request, method, headers });
    const isReplayed = response.headers.get("idempotent-replayed") === "true";
    const requestId = response.headers.get("x-request-id") ?? "";
    return { status: response.status, isReplayed, text: await response.text(), requestId };
  } catch {
    return null; // What fetch rejects with is a connection that broke.
  }
}

/** As {@link carefulCall}. Rejects at an answer that is not 200. */
export async function servedCall(
  url: string,
  request: CarefulRequest,
): Promise<CarefulAnswer | null> {
  const answer = await carefulCall(url, request);
  if (answer === null || answer.status === 200) return answer;
  throw new Error(`${url} answered ${answer.status}: ${answer.text.slice(0, 500)}`);
}
