import type { JsonSchema } from "../src/api/schema.ts";
import type { Setting } from "../src/config/setting-rule.ts";
import { SETTING_LIST } from "../src/config/setting.ts";
import { OTHERWISE } from "../src/embedded/settings.ts";
import { typeOf } from "./api-types.ts";

/**
 * Writes `src/embedded/config-settings.ts` as the package's users have it: an interface with a member for each key of a
 * `postbackd.toml` that `createDaemon` reads.
 */
export function configTypes(): string {
  const root = newTable();
  for (const setting of SETTING_LIST) {
    if (setting.inFile && !OTHERWISE.has(setting.key)) place(setting, root);
  }
  root.properties["marketplaces"] = MARKETPLACES;
  return `export interface ConfigSettings ${typeOf(root)}\n`;
}

interface Table extends JsonSchema {
  readonly type: "object";
  readonly properties: Record<string, JsonSchema>;
}

function newTable(): Table {
  return { type: "object", properties: {} };
}

/** `limits.account.bytes` is a member of the table `account` in the table `limits`. */
function place({ key, rule, description, default: standard }: Setting, root: Table): void {
  const path = key.split(".");
  const name = path.pop() ?? "";
  let table = root;
  for (const section of path) {
    const known = table.properties[section] ?? newTable();
    table.properties[section] = known;
    table = known as Table;
  }
  const isEmpty = standard === null || (Array.isArray(standard) && standard.length === 0);
  const note = isEmpty ? "" : ` (${JSON.stringify(standard)} unless given)`;
  table.properties[name] = { ...rule.schema, description: `${description}${note}.` };
}

const MARKETPLACES: JsonSchema = {
  description: "Marketplaces that tasks may name; any further key of one is shown to clients.",
  type: "array",
  items: {
    type: "object",
    properties: { code: { type: "string" }, name: { type: "string" } },
    required: ["code", "name"],
    additionalProperties: {},
  },
};
