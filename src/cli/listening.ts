import { watchSignals } from "../daemon/stop-signal.ts";
import { aliveDuring } from "../domain/clock/alive.ts";
import { systemClock } from "../domain/clock/clock.ts";
import { printable } from "../domain/text.ts";
import {
  DaemonRefusal,
  listen,
  TlsFileError,
  type ListenPlan,
  type ListenReport,
} from "../listen/listen.ts";
import { createLogger } from "../log.ts";
import { CommandFailure, ConfigurationError, EXIT } from "./failure.ts";
import { printError, printJson } from "./print.ts";

// Requests under way are broken off; nothing has to be given back.
const STOP_MS_MAX = 5000;

/**
 * Listens until a signal asks it to stop, then ends the process with 0. Throws a {@link CommandFailure} when the daemon
 * refuses the key. The key is never printed.
 */
export async function listenUntilStopped(
  plan: ListenPlan,
  output: { readonly json: boolean },
): Promise<void> {
  // Of a stop that goes well there is nothing to say.
  const log = createLogger({ level: "warn", format: "text" });
  const stop = new AbortController();
  const signals = watchSignals({ log, reload: null, stopMsMax: STOP_MS_MAX });
  void signals.asked.then(() => stop.abort());
  const parts = { clock: systemClock, report: reportOf(plan, output), stop: stop.signal };
  try {
    await aliveDuring(() => listen(plan, parts));
  } catch (error) {
    if (error instanceof TlsFileError) throw new ConfigurationError([error.message]);
    if (error instanceof DaemonRefusal) throw new CommandFailure(error.message, { cause: error });
    throw error;
  }
  process.exit(EXIT.done);
}

function reportOf(
  { url, forwardTo }: ListenPlan,
  { json: isJson }: { readonly json: boolean },
): ListenReport {
  let isFirst = true;
  return {
    secrets({ login, webhook_secret: secret, webhook_secret_next: next }) {
      const what = `listening to the webhooks of ${printable(login)} at ${url.origin}`;
      printError(
        isFirst ? `${what}; forwarding to ${forwardTo.href}` : "the webhook secret changed",
      );
      printError(`webhook secret: ${secret}${next === null ? "" : `, next: ${next}`}`);
      isFirst = false;
    },
    forwarded({ started_at: at, kind, task_id: id, number }, { httpStatus, error, signature }) {
      if (isJson) {
        const reasons = signature.kind === "valid" ? [] : signature.reasons;
        return printJson({
          ...{ event: "forwarded", started_at: at, kind, task_id: id, attempt: number },
          ...{ http_status: httpStatus, error },
          signature: { valid: reasons.length === 0, reasons },
        });
      }
      const answer =
        httpStatus === null ? `no answer: ${error ?? "none"}` : `answered ${httpStatus}`;
      const verdict =
        signature.kind === "valid"
          ? "X-Signature is valid"
          : `X-Signature is NOT valid: ${signature.reasons[0] ?? "unknown reason"}`;
      const of = kind === "pingback" ? " over the original URL" : "";
      process.stdout.write(`${at} ${kind} ${id} attempt ${number}: ${answer}; ${verdict}${of}\n`);
    },
    gone({ kind, task_id: id, number }) {
      printError(`${kind} ${id} attempt ${number} cannot be shown: its task was erased`);
    },
    lost(reason) {
      printError(`no usable answer from ${url.origin} (${reason}); trying again until there is`);
    },
    back() {
      printError(`${url.origin} answers again; going on from where it stood`);
    },
  };
}
