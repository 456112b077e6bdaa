import type { DaemonProcess } from "../kit/daemon-process.ts";
import { DatabaseView } from "../kit/database-view.ts";
import { until } from "../kit/until.ts";
import type { Ledger } from "./ledger.ts";

/**
 * Lets a daemon finish everything that it has, promised or not. Rejects when it ends instead, and when it stands still
 * for longer.
 */
export async function finish(
  daemon: DaemonProcess,
  of: { readonly database: string; readonly ledger: Ledger; readonly stallMsMax: number },
): Promise<void> {
  const { database, ledger, stallMsMax } = of;
  using view = new DatabaseView(database);
  const isQuiet = (): boolean => {
    daemon.requireRunning();
    return view.isQuiet();
  };
  await until(isQuiet, {
    msMax: stallMsMax,
    progress: () => ledger.arrivals.length,
    fault: () =>
      `not everything is done, and ${ledger.missing} webhooks are missing: ${daemon.log}`,
  });
}
