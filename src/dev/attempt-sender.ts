import type { AttemptResult } from "../domain/webhook/delivery.ts";
import type { SendRequest } from "../domain/webhook/webhook-request.ts";

/** Makes attempts, as the daemon's sender does. */
export interface AttemptSender {
  send(request: SendRequest): Promise<AttemptResult>;
  /** Breaks off everything in flight. */
  abort(): void;
}
