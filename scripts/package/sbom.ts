import { createHash } from "node:crypto";

import { z } from "zod";

import { sqliteVersion } from "../../src/store/sqlite/machine/connection.ts";
import { nodeVersion, version } from "../manifest.ts";
import { npmComponents } from "./components.ts";
import { runTool } from "./staging.ts";

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
