import type { Config } from "../config/config.ts";
import { guarded, SILENT, type Logger } from "../domain/log.ts";
import { createLogger } from "../log.ts";
import type { EmbeddedSettings } from "./settings.ts";

/** Writes nothing unless asked; a program's own logger cannot bring the daemon down. */
export function toLogger(given: EmbeddedSettings["log"], { log }: Pick<Config, "log">): Logger {
  if (given === false) return guarded(SILENT);
  return guarded(given === true ? createLogger(log) : given);
}
