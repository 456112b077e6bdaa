import { readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";

import { codeOf } from "../domain/message-of.ts";
import { checkSignature } from "../domain/webhook/signature-check.ts";
import type { ReceivedMessage, SignatureVerdict } from "../domain/webhook/signature-check.ts";
import { flag, TEXT, textOf, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { CommandFailure, EXIT, UsageError } from "./failure.ts";
import { JSON_ARG, printAnswer, type Answer } from "./print.ts";
import { settingArgs } from "./settings.ts";

const FLAGS = {
  secret: flag(textOf("SECRET"), "Webhook secret, whsec_ included"),
  "secret-file": flag(
    textOf("PATH"),
    "File with the secret, which other users of the machine cannot see in the process list",
  ),
  "body-file": flag(textOf("PATH"), "Body of a postback as it was received; - is standard input"),
  url: flag(textOf("URL"), "URL of a pingback as it was requested"),
  signature: flag(TEXT, "Value of the header X-Signature"),
};

type Flags = Given<typeof FLAGS>;

export const verifyCommand = defineCommand({
  description: "Check the signature of a webhook and say what is wrong with it",
  example:
    'postbackd verify --secret-file secret.txt --body-file body.json --signature "$SIGNATURE"',
  notes:
    "It takes the body of a postback or the URL of a pingback, and one of --secret and --secret-file. It\n" +
    "exits with 0 when the signature is valid and with 1 when not. It reads neither database nor configuration.",
  // Accepted because every command accepts them (contract §8): a script may add them to every call.
  args: { ...FLAGS, ...settingArgs(["db", "config"]), ...JSON_ARG },
  async run(given) {
    const signature = required(given, "signature");
    const secretFlag = oneOf(given, ["secret", "secret-file"]);
    const messageFlag = oneOf(given, ["body-file", "url"]);
    const secret = await secretOf(given, secretFlag);
    const message = await messageOf(given, messageFlag);
    const verdict = checkSignature({ signature, secret, message });
    printAnswer(given, toAnswer(verdict));
    return verdict.kind === "valid" ? EXIT.done : EXIT.failed;
  },
});

function required(given: Flags, name: keyof Flags): string {
  return given[name] ?? refuse(`--${name} is missing`);
}

function oneOf<const Name extends keyof Flags>(given: Flags, names: readonly [Name, Name]): Name {
  const [first, second] = names.filter((name) => given[name] !== null);
  if (first !== undefined && second === undefined) return first;
  const flags = names.map((name) => `--${name}`);
  return refuse(
    first === undefined ? `give ${flags.join(" or ")}` : `give ${flags.join(" or ")}, not both`,
  );
}

async function secretOf(given: Flags, flag: "secret" | "secret-file"): Promise<string> {
  const text = required(given, flag);
  if (flag === "secret") return text;
  // Editors and echo end a file with a line break.
  const bytes = await readBytes(text, "secret");
  return bytes.toString("utf8").replace(/\r?\n$/, "");
}

async function messageOf(given: Flags, flag: "body-file" | "url"): Promise<ReceivedMessage> {
  const text = required(given, flag);
  return flag === "url"
    ? { kind: "url", url: text }
    : { kind: "body", bytes: await readBytes(text, "body") };
}

async function readBytes(file: string, what: string): Promise<Buffer> {
  try {
    return await (file === "-" ? buffer(process.stdin) : readFile(file));
  } catch (error) {
    const code = codeOf(error) ?? "unknown error";
    const name = file === "-" ? "standard input" : file;
    throw new CommandFailure(`the ${what} cannot be read from ${name} (${code})`, { cause: error });
  }
}

function toAnswer(verdict: SignatureVerdict): Answer {
  if (verdict.kind === "valid") {
    return { document: { valid: true, reasons: [] }, lines: ["The signature is valid."] };
  }
  const { reasons } = verdict;
  return {
    document: { valid: false, reasons },
    lines: ["The signature is not valid.", ...reasons],
  };
}

function refuse(message: string): never {
  throw new UsageError(message);
}
