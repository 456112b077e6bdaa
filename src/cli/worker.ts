import { readFileSync } from "node:fs";

import { isWellFormedWorkerToken } from "../domain/account/key.ts";
import { isLoopbackHost } from "../domain/address/loopback.ts";
import { codeOf } from "../domain/message-of.ts";
import { DURATION, integerBetween, quote } from "../domain/rule.ts";
import { flag, rest, textOf, toggle, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { ConfigurationError, UsageError } from "./failure.ts";
import type { WorkerPlan } from "./work.ts";
import { typeFlag } from "./worker-type.ts";

const CONCURRENCY = integerBetween(1, 100);

const args = {
  url: flag(textOf("URL"), "Base URL of the daemon"),
  token: flag(
    textOf("TOKEN"),
    "Worker's token; better in POSTBACKD_TOKEN or the file POSTBACKD_TOKEN_FILE names",
  ),
  type: typeFlag("Type whose tasks it claims"),
  concurrency: flag(CONCURRENCY, "Tasks at once, 1 to 100", { standard: "1" }),
  timeout: flag(DURATION, "Longest run; the type's own timeout counts anyway"),
  "insecure-http": toggle("Use plain HTTP beyond loopback, token and tasks in the clear"),
  command: rest("Program and arguments to run for each task, without a shell"),
};

export const workerCommand = defineCommand({
  description: "Claim tasks from a daemon over HTTP and run a command for each",
  example: "postbackd worker --url http://127.0.0.1:8787 --type resize -- node resize.js",
  notes:
    "The command gets the task as one line of JSON on stdin; what it prints is the result. A token on the\n" +
    "command line is seen by every user of the machine: give it in POSTBACKD_TOKEN, or in the file that\n" +
    "POSTBACKD_TOKEN_FILE names. When the daemon has accepted it, stdout gets one line of JSON; logs go to\n" +
    "stderr. SIGTERM and SIGINT stop it: runs have 25 seconds to end, what still runs then is given back.",
  args,
  async run(given) {
    const plan = readPlan(given, process.env);
    const { work } = await import("./work.ts");
    await work(plan);
  },
});

/** The plan from the command line and the environment, checked. It reads no file but that of the token. */
function readPlan(given: Given<typeof args>, env: NodeJS.ProcessEnv): WorkerPlan {
  const [program, ...words] = given.command;
  if (program === undefined || program === "") throw new UsageError("COMMAND is missing");
  return {
    url: urlOf(given),
    types: given.type,
    concurrency: given.concurrency ?? 1,
    // Without it, the only timeout is the type's, which the daemon enforces.
    timeoutMs: given.timeout ?? Infinity,
    token: tokenOf(given.token, env),
    command: [program, ...words],
  };
}

function urlOf({ url: text, "insecure-http": isFine }: Given<typeof args>): URL {
  if (text === null) throw new UsageError("give the daemon's base URL, with --url URL");
  const url = URL.parse(text);
  const isBase = url !== null && /^https?:$/.test(url.protocol) && url.search + url.hash === "";
  if (!isBase || url.username + url.password !== "") {
    throw new UsageError(
      "--url takes a base URL such as https://tasks.example.com, without a user",
    );
  }
  const isReadable =
    url.protocol === "http:" && !isLoopbackHost(url.hostname.replace(/^\[(.*)\]$/, "$1"));
  if (!isReadable || isFine) return url;
  throw new ConfigurationError([
    `${url.origin} is plain HTTP beyond this machine: token and tasks would travel readable; ` +
      "give an https URL, or --insecure-http if the network is trusted",
  ]);
}

// The given text is not repeated: it is a secret, or another secret.
function tokenOf(flagged: string | null, env: NodeJS.ProcessEnv): string {
  const [token, source] = findToken(flagged, env);
  if (isWellFormedWorkerToken(token)) return token;
  throw new UsageError(
    `${source} holds no worker's token, which is pbd_work_ and 40 characters; ` +
      "copy it whole, or make one with 'postbackd admin worker create'",
  );
}

function findToken(
  flagged: string | null,
  env: NodeJS.ProcessEnv,
): readonly [token: string, source: string] {
  if (flagged !== null) return [flagged, "--token"];
  const { POSTBACKD_TOKEN: variable = "", POSTBACKD_TOKEN_FILE: file = "" } = env;
  if (variable !== "") return [variable, "POSTBACKD_TOKEN"];
  if (file !== "") return [readTokenFile(file), `the file of POSTBACKD_TOKEN_FILE`];
  throw new UsageError(
    "give the worker's token, in POSTBACKD_TOKEN, POSTBACKD_TOKEN_FILE or --token",
  );
}

function readTokenFile(path: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    const code = codeOf(error) ?? "unreadable";
    const what = `the file ${quote(path)} of POSTBACKD_TOKEN_FILE cannot be read (${code})`;
    throw new UsageError(what, { cause: error });
  }
}
