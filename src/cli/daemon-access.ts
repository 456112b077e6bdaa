import { readFileSync } from "node:fs";

import { readBaseUrl } from "../domain/address/address.ts";
import { codeOf } from "../domain/error.ts";
import { quote } from "../domain/rule.ts";
import { ConfigurationError, UsageError } from "./failure.ts";

interface GivenUrl {
  readonly url: string | null;
  readonly "insecure-http": boolean;
}

/** The daemon's base URL. Refuses plain HTTP beyond this machine; `travels` names what would be readable on the way. */
export function daemonUrl({ url: text, "insecure-http": isFine }: GivenUrl, travels: string): URL {
  if (text === null) throw new UsageError("give the daemon's base URL, with --url URL");
  const base = readBaseUrl(text);
  if (base === null) {
    throw new UsageError(
      "--url takes a base URL such as https://tasks.example.com, without a user",
    );
  }
  const { url, isReadable } = base;
  if (!isReadable || isFine) return url;
  throw new ConfigurationError([
    `${url.origin} is plain HTTP beyond this machine: ${travels} would be readable on the network; ` +
      "give an https URL, or --insecure-http if you trust the network",
  ]);
}

/** A credential that a command takes from its flag, a variable, or the file that another variable names. */
export interface Credential {
  /** The flag is `--NAME`, the variables are `POSTBACKD_NAME` and `POSTBACKD_NAME_FILE`. */
  readonly name: "token" | "key";
  readonly what: string;
  readonly isWellFormed: (text: string) => boolean;
  /** The end of the sentence about a malformed one. */
  readonly form: string;
}

/** Reads a credential; the flag goes before the variable, and that before the file. */
// The given text is not repeated: it is a secret, or another secret.
export function readCredential(
  of: Credential,
  flagged: string | null,
  env: NodeJS.ProcessEnv,
): string {
  const [text, source] = findCredential(of, flagged, env);
  if (of.isWellFormed(text)) return text;
  throw new UsageError(`${source} holds no ${of.what}, which is ${of.form}`);
}

function findCredential(
  { name, what }: Credential,
  flagged: string | null,
  env: NodeJS.ProcessEnv,
): readonly [text: string, source: string] {
  if (flagged !== null) return [flagged, `--${name}`];
  const variable = `POSTBACKD_${name.toUpperCase()}`;
  const { [variable]: given = "", [`${variable}_FILE`]: file = "" } = env;
  if (given !== "") return [given, variable];
  if (file !== "") return [readFile(file, `${variable}_FILE`), `the file of ${variable}_FILE`];
  throw new UsageError(`give the ${what}, in ${variable}, ${variable}_FILE or --${name}`);
}

function readFile(path: string, variable: string): string {
  try {
    return readFileSync(path, "utf8").trim();
  } catch (error) {
    const code = codeOf(error) ?? "unreadable";
    const what = `the file ${quote(path)} of ${variable} cannot be read (${code})`;
    throw new UsageError(what, { cause: error });
  }
}
