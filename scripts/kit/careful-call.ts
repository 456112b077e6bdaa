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
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** Asks. Null when the connection broke before the whole answer was there, as when the daemon is killed. */
export async function carefulCall(
  url: string,
  { secret, method = "POST", ...request }: CarefulRequest,
): Promise<CarefulAnswer | null> {
  const headers = { ...request.headers, authorization: `Bearer ${secret}` };
  try {
    const response = await fetch(url, { ...request, method, headers });
    const isReplayed = response.headers.get("idempotent-replayed") === "true";
    const requestId = response.headers.get("x-request-id") ?? "";
    return { status: response.status, isReplayed, text: await response.text(), requestId };
  } catch {
    return null; // What fetch rejects with is a connection that broke.
  }
}
