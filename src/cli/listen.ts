import { watchSignals } from "../daemon/stop-signal.ts";
import { isWellFormedKey } from "../domain/account/key.ts";
import { aliveDuring, systemClock } from "../domain/clock/clock.ts";
import { TAG } from "../domain/task/task.ts";
import { printable } from "../domain/text.ts";
import type { ListenPlan, ListenReport } from "../listen/listener.ts";
import { createLogger } from "../log.ts";
import { flag, textOf, toggle } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { daemonUrl, readCredential } from "./daemon-access.ts";
import { EXIT, UsageError } from "./failure.ts";
import { printError, printJson } from "./print.ts";

const args = {
  url: flag(textOf("URL"), "Base URL of the daemon"),
  key: flag(
    textOf("KEY"),
    "Key of the account; better in POSTBACKD_KEY or the file POSTBACKD_KEY_FILE names",
  ),
  "forward-to": flag(textOf("URL"), "Receiver of every attempt, an http or https URL"),
  type: flag(textOf("TYPE"), "Only webhooks of tasks of this type"),
  tag: flag(TAG, "Only webhooks of tasks with exactly this tag"),
  ca: flag(textOf("PATH"), "Authorities (PEM) to trust besides the system's"),
  "insecure-http": toggle("Allow plain HTTP beyond loopback: the key and tasks are readable"),
  json: toggle("Print a JSON document for each attempt"),
};

export const listenCommand = defineCommand({
  description:
    "Send an account's webhooks to a receiver on this machine too, as they are attempted",
  example:
    "postbackd listen --url https://tasks.example.com --forward-to http://127.0.0.1:3000/hook",
  notes:
    "It watches the account's deliveries and sends each attempt that starts from now on to the receiver: method,\n" +
    "body, and headers with their signatures, byte for byte. A pingback goes to the receiver's path with its own\n" +
    "query; X-Signature is over its original URL, which X-Postbackd-Original-Url holds. It changes nothing on\n" +
    "the daemon: the task's own URLs get their webhooks, and what they answer counts.\n\n" +
    "stdout gets a line for each attempt; stderr gets the webhook secret, once, and everything else there is to\n" +
    "say. A key on the command line is seen by every user of the machine: give it in POSTBACKD_KEY, or in the\n" +
    "file that POSTBACKD_KEY_FILE names. SIGTERM and SIGINT stop it.",
  args,
  async run(given) {
    const plan: ListenPlan = {
      url: daemonUrl(given, "key and tasks"),
      key: readCredential(KEY, given.key, process.env),
      forwardTo: receiverUrl(given["forward-to"]),
      type: given.type,
      tag: given.tag,
      ca: given.ca,
    };
    await listenUntilStopped(plan, given);
  },
});

const KEY = {
  name: "key",
  what: "key of an account",
  isWellFormed: isWellFormedKey,
  form: "pbd_live_ and 40 characters; copy the complete key",
} as const;

function receiverUrl(text: string | null): URL {
  if (text === null) throw new UsageError("give the receiver's URL, with --forward-to URL");
  const url = URL.parse(text);
  const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.hash === "";
  if (isPlain && url.username + url.password === "") return url;
  throw new UsageError(
    "--forward-to takes an http or https URL such as http://127.0.0.1:3000/hook, without a user",
  );
}

// Requests under way are broken off; nothing has to be given back.
const STOP_MS_MAX = 5000;

/** Listens until a signal stops it. Then ends the process with 0. The key is never printed. */
async function listenUntilStopped(
  plan: ListenPlan,
  output: { readonly json: boolean },
): Promise<void> {
  // A stop without a problem logs nothing.
  const log = createLogger({ level: "warn", format: "text" });
  const stop = new AbortController();
  const signals = watchSignals({ log, reload: null, stopMsMax: STOP_MS_MAX });
  void signals.asked.then(() => stop.abort());
  const parts = { clock: systemClock, report: reportOf(plan, output), stop: stop.signal };
  const { listen } = await import("../listen/listener.ts");
  await aliveDuring(() => listen(plan, parts));
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
      printError(`no valid response from ${url.origin} (${reason}); trying again until there is`);
    },
    back() {
      printError(`${url.origin} responds again; listening continues`);
    },
  };
}
