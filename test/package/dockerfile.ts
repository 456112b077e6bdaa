import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** An instruction of a Dockerfile: its name in capitals, and the rest of its line. */
export interface Instruction {
  readonly name: string;
  readonly text: string;
}

/** From one FROM to the next. */
export interface Stage {
  readonly base: string;
  readonly name: string | null;
  readonly instructions: readonly Instruction[];
}

/** The stages of a Dockerfile without comments, lines that go on joined, and the values of ARGs put into FROM. */
export function readDockerfile(
  file: string,
  args: Readonly<Record<string, string>>,
): readonly Stage[] {
  const lines = readFileSync(file, "utf8")
    .replaceAll(/^#.*\n/gm, "")
    .replaceAll("\\\n", " ")
    .split("\n")
    .filter((line) => line.trim() !== "");
  const stages: { base: string; name: string | null; instructions: Instruction[] }[] = [];
  for (const line of lines) {
    const [, name = "", text = ""] =
      /^([A-Z]+) (.*)$/.exec(line) ?? assert.fail(`not read: ${line}`);
    if (name === "FROM") {
      const filled = text.replaceAll(/\$\{(\w+)\}/g, (_, arg: string) => args[arg] ?? "");
      const [base = "", , alias] = filled.split(/ +/);
      stages.push({ base, name: alias ?? null, instructions: [] });
    } else stages.at(-1)?.instructions.push({ name, text });
  }
  return stages;
}

/** What an image says of how it is run. */
export interface ImageSettings {
  readonly env: Readonly<Record<string, string>>;
  /** User and group. */
  readonly user: string;
  readonly folder: string;
  /** What every container runs, and the arguments that it gets where none are given. */
  readonly entry: readonly string[];
  readonly command: readonly string[];
  readonly health: readonly string[];
}

export function settingsOf({ instructions }: Stage): ImageSettings {
  const last = (name: string) =>
    instructions.findLast((one) => one.name === name)?.text ?? assert.fail(`no ${name}`);
  const env = instructions
    .filter(({ name }) => name === "ENV")
    .flatMap(({ text }) => text.split(" "));
  const words = (text: string) => JSON.parse(text.slice(text.indexOf("["))) as readonly string[];
  return {
    env: Object.fromEntries(env.map((pair) => pair.split("=", 2))),
    user: last("USER"),
    folder: last("WORKDIR"),
    entry: words(last("ENTRYPOINT")),
    command: words(last("CMD")),
    health: words(last("HEALTHCHECK")),
  };
}
