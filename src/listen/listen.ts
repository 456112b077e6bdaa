import { createServiceClient } from "../deliver/service-client.ts";
import { readAuthorities } from "../deliver/trust.ts";
import type { Clock } from "../domain/clock/clock.ts";
import { AccountApi } from "./account-api.ts";
import { Forwarder } from "./forwarder.ts";
import { Listener, type ListenReport } from "./listener.ts";

export type { ListenReport } from "./listener.ts";

export interface ListenPlan {
  readonly url: URL;
  readonly key: string;
  readonly forwardTo: URL;
  readonly type: string | null;
  readonly tag: string | null;
  /** File with authorities (PEM) to trust besides the system's. */
  readonly ca: string | null;
}

export interface ListenParts {
  readonly clock: Clock;
  readonly report: ListenReport;
  readonly stop: AbortSignal;
}

/** Forwards attempts until it is stopped. Rejects with a DaemonRefusal, or a TlsFileError if `ca` has no authority. */
export async function listen(plan: ListenPlan, parts: ListenParts): Promise<void> {
  const { clock, stop } = parts;
  const authorities = plan.ca === null ? [] : readAuthorities({ path: plan.ca, name: "--ca" });
  const client = createServiceClient({ socketsMax: 2, authorities });
  const forwarder = new Forwarder(plan.forwardTo, { clock, authorities });
  const breakOff = (): void => forwarder.close();
  stop.addEventListener("abort", breakOff);
  try {
    const api = new AccountApi({ ...plan, client, clock, stop });
    await new Listener({ ...plan, ...parts, api, forwarder }).run();
  } finally {
    stop.removeEventListener("abort", breakOff);
    forwarder.close();
    client.close();
  }
}
