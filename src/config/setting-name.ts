import { quote } from "../domain/rule.ts";
import { nearestName } from "../domain/text.ts";
import { envName, type Setting } from "./setting-row.ts";
import { SETTING_LIST } from "./setting.ts";

/** The three ways to name a setting. */
type Spelling = "key" | "flag" | "variable";

/**
 * Tells what is wrong with an unknown name of a setting, and names the nearest one that exists; `others` are names that
 * exist beside the settings. For `db` in the file it suggests `database`.
 */
export function unknownNameMessage(
  name: string,
  { what, others = [] }: { readonly what: Spelling; readonly others?: readonly string[] },
): string {
  const unknown = `unknown ${what} ${quote(name)}`;
  const meant = SETTING_LIST.find(({ key, flag }) =>
    [key, flag].some((known) => isSame(known, name)),
  );
  if (meant?.inFile === true && spelled(meant, what) === null) {
    return `${unknown}; ${meant.key} in the file and ${meant.env} set this`;
  }
  const names = SETTING_LIST.flatMap((known) => spelled(known, what) ?? []);
  const nearest = (meant && spelled(meant, what)) ?? nearestName(name, [...names, ...others]);
  return `${unknown}; the nearest known one is ${nearest}`;
}

function spelled(setting: Setting, what: Spelling): string | null {
  if (what === "variable") return setting.env;
  if (what === "key") return setting.inFile ? setting.key : null;
  return setting.flag === null ? null : `--${setting.flag}`;
}

/** True for one name in two spellings: `webhooks.timeout`, POSTBACKD_WEBHOOKS_TIMEOUT. */
function isSame(known: string | null, name: string): boolean {
  return known !== null && envName(known) === envName(name.replace(/^(--|POSTBACKD_)/, ""));
}
