import { createHash } from "node:crypto";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";

import { z } from "zod";

import { sqliteVersion } from "../../src/store/sqlite/machine/connection.ts";
import { ROOT, nodeVersion, version } from "../manifest.ts";
import { runTool } from "./staging.ts";

const LOCK = z.object({
  packages: z.record(
    z.string(),
    z.object({
      version: z.string().optional(),
      license: z.string().optional(),
      dev: z.boolean().optional(),
    }),
  ),
});

/** A package of npm that is in the executable, as `package-lock.json` pins it. */
export interface Component {
  readonly name: string;
  readonly version: string;
  /** An SPDX expression; `unknown` where the lock has none. */
  readonly license: string;
  /** Its path after the installation. */
  readonly folder: string;
}

/** Of the tools of development, what gets into the executable: the dashboard's libraries. */
const BUILT_IN = ["preact", "@preact/signals", "@preact/signals-core"];

const NODE_MODULES = "node_modules/";

/** What the lock says is installed with the program, and what the build puts in beside; in the order of names. */
export function npmComponents(): readonly Component[] {
  const text = readFileSync(join(ROOT, "package-lock.json"), "utf8");
  return Object.entries(LOCK.parse(JSON.parse(text)).packages)
    .filter(([path]) => path !== "")
    .map(([path, { version = "", license = "unknown", dev = false }]) => {
      const name = path.slice(path.lastIndexOf(NODE_MODULES) + NODE_MODULES.length);
      return { name, version, license, folder: join(ROOT, path), dev };
    })
    .filter(({ name, dev }) => !dev || BUILT_IN.includes(name))
    .map(({ name, version, license, folder }) => ({ name, version, license, folder }))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

/** The licence of the pinned Node, with those of all that it holds itself. */
export function nodeLicence(): string {
  // Its install script puts the package of the platform below it.
  const platform = `node-${process.platform}-${process.arch}`;
  const folder = join(ROOT, "node_modules", "node", "node_modules", platform);
  return readFileSync(join(folder, "LICENSE"), "utf8");
}

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

const BILL = z.looseObject({
  metadata: z.looseObject({ component: z.looseObject({}) }),
  components: z.array(z.looseObject({ "bom-ref": z.string() })),
  dependencies: z.array(z.looseObject({ ref: z.string(), dependsOn: z.array(z.string()) })),
});

/**
 * What the executable is made of, as CycloneDX: of npm's list of all packages of the lock those that are in it, and beside
 * them Node and SQLite. Without a number and a time of its own, so that it is the same each time.
 *
 * npm is not asked to omit what is of development: it then leaves out what the program and a tool both need, such as pg.
 */
export function billOfMaterials(date: number): string {
  const command = ["npm", "sbom", "--sbom-format", "cyclonedx", "--package-lock-only"] as const;
  const bill = BILL.parse(JSON.parse(runTool([...command, "--silent"])));
  const own = `postbackd@${version}`;
  const isIn = new Set(
    npmComponents().map((component) => `${component.name}@${component.version}`),
  );
  const base = baseComponents();
  const whole = {
    ...bill,
    metadata: {
      ...bill.metadata,
      timestamp: new Date(date * 1000).toISOString(),
      component: { ...bill.metadata.component, type: "application", name: "postbackd" },
    },
    components: [...bill.components.filter((each) => isIn.has(each["bom-ref"])), ...base],
    dependencies: bill.dependencies
      .filter(({ ref }) => ref === own || isIn.has(ref))
      .map(({ ref, dependsOn }) => {
        const inside = dependsOn.filter((each) => isIn.has(each));
        const below = ref === own ? base.map((each) => each["bom-ref"]) : [];
        return { ref, dependsOn: [...inside, ...below] };
      }),
  };
  const json = JSON.stringify({ ...whole, serialNumber: undefined });
  return `${JSON.stringify({ ...whole, serialNumber: serialOf(json) }, null, 2)}\n`;
}

function baseComponents() {
  const sqlite = sqliteVersion();
  return [
    {
      "bom-ref": `node@${nodeVersion}`,
      type: "platform",
      name: "node",
      version: nodeVersion,
      purl: `pkg:generic/node@${nodeVersion}`,
      cpe: `cpe:2.3:a:nodejs:node.js:${nodeVersion}:*:*:*:lts:*:*:*`,
      licenses: [{ license: { id: "MIT" } }],
    },
    {
      "bom-ref": `sqlite@${sqlite}`,
      type: "library",
      name: "sqlite",
      version: sqlite,
      purl: `pkg:generic/sqlite@${sqlite}`,
      cpe: `cpe:2.3:a:sqlite:sqlite:${sqlite}:*:*:*:*:*:*:*`,
      licenses: [{ license: { id: "blessing" } }],
    },
  ];
}

/** A UUID that the content gives (RFC 9562, version 8). */
function serialOf(content: string): string {
  const hex = createHash("sha256").update(content).digest("hex");
  const parts = [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`];
  return `urn:uuid:${[...parts, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join("-")}`;
}
