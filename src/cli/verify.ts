import { readFile } from "node:fs/promises";
import { buffer } from "node:stream/consumers";

import { codeOf } from "../domain/error.ts";
import { checkSignature, explainVerdict } from "../domain/webhook/signature.ts";
import { flag, TEXT, textOf, type Given } from "./arguments.ts";
import { defineCommand } from "./command.ts";
import { EXIT, UsageError, fail } from "./failure.ts";
import { JSON_ARG } from "./print.ts";
import { settingArgs } from "./settings.ts";

const FLAGS = {
  secret: flag(textOf("SECRET"), "Webhook secret, whsec_ included"),
  "secret-file": flag(
    textOf("PATH"),
    "File with the secret; other users cannot see it in the process list",
  ),
  "body-file": flag(textOf("PATH"), "File with the body of a postback, as received; - reads stdin"),
  url: flag(textOf("URL"), "URL of a pingback, as requested"),
  signature: flag(TEXT, "Value of the header X-Signature"),
};

type Flags = Given<typeof FLAGS>;

// Every command accepts these flags (cli.md), so that a script can add them to every call.
const IGNORED = Object.fromEntries(
  Object.entries(settingArgs(["db", "config"])).map(([name, arg]) => [
    name,
    { ...arg, description: "Not used; accepted as by every command" },
  ]),
);

export const verifyCommand = defineCommand({
  description: "Check the signature of a webhook, and explain a mismatch",
  example:
    'postbackd verify --secret-file secret.txt --body-file body.json --signature "$SIGNATURE"',
  notes:
    "It takes the body of a postback or the URL of a pingback, and one of --secret and --secret-file. It\n" +
    "exits with 0 when the signature is valid and with 1 when not. It reads neither database nor configuration.",
  args: { ...FLAGS, ...IGNORED, ...JSON_ARG },
  async run(given) {
    const { signature } = given;
    if (signature === null) throw new UsageError("--signature is missing");
    requireOne(given, "secret", "secret-file");
    requireOne(given, "body-file", "url");
    const { url, "secret-file": secretFile, "body-file": bodyFile } = given;
    const verdict = checkSignature({
      signature,
      // Editors and echo end a file with a line break.
      secret:
        given.secret ??
        (await readBytes(secretFile, "secret")).toString("utf8").replace(/\r?\n$/, ""),
      message:
        url === null
          ? { kind: "body", bytes: await readBytes(bodyFile, "body") }
          : { kind: "url", url },
    });
    const isValid = verdict.kind === "valid";
    return {
      document: { valid: isValid, reasons: isValid ? [] : verdict.reasons },
      lines: explainVerdict(verdict),
      exit: isValid ? EXIT.done : EXIT.failed,
    };
  },
});

function requireOne(given: Flags, ...names: readonly [keyof Flags, keyof Flags]): void {
  const count = names.filter((name) => given[name] !== null).length;
  if (count === 1) return;
  const both = names.map((name) => `--${name}`).join(" or ");
  throw new UsageError(`give ${both}${count === 0 ? "" : ", not both"}`);
}

async function readBytes(file: string | null, what: string): Promise<Buffer> {
  try {
    return await (file === "-" ? buffer(process.stdin) : readFile(file ?? ""));
  } catch (error) {
    const code = codeOf(error) ?? "unknown error";
    const name = file === "-" ? "standard input" : file;
    fail(`the ${what} cannot be read from ${name} (${code})`, error);
  }
}
