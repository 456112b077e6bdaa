import { METRICS_TOKEN } from "../domain/account/credentials.ts";
import type { SettingRule } from "./setting-rule.ts";

/** The token of metrics, which nobody is shown. */
export const SHOWN_METRICS_TOKEN: SettingRule<string> = { ...METRICS_TOKEN, shown: () => "…" };
