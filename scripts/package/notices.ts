import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { sqliteVersion } from "../../src/store/sqlite/machine/connection.ts";
import { nodeVersion } from "../manifest.ts";
import { nodeLicence, npmComponents, type Component } from "./components.ts";

const RULE = `\n${"=".repeat(78)}\n\n`;

/** The licences of everything that is in a package and is not ours, in full. */
export function thirdPartyNotices(): string {
  const head =
    "postbackd contains the software below, each under its own licence: the executable all of\n" +
    "it, npm's package all but Node.js. SQLite is in the public domain.\n";
  const sections = npmComponents().map(
    (component) =>
      `${component.name} ${component.version} (${component.license})\n\n${licenceText(component)}`,
  );
  const node = `Node.js ${nodeVersion}\n\n${nodeLicence().trim()}\n`;
  const sqlite = `SQLite ${sqliteVersion()}\n\nIn the public domain: https://www.sqlite.org/copyright.html\n`;
  return [head, ...sections, sqlite, node].join(RULE);
}

function licenceText({ folder, license }: Component): string {
  // One for another platform is in the lock and is not installed.
  const names = existsSync(folder) ? readdirSync(folder).toSorted() : [];
  const texts = names
    .filter((name) => /^(?:licen[cs]e|copying|notice)/i.test(name))
    .map((name) => `${readFileSync(join(folder, name), "utf8").trim()}\n`);
  return texts.length > 0
    ? texts.join("\n")
    : `It comes without a text; its licence is ${license}.\n`;
}
