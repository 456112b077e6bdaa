import { BODY_PARSES } from "../http/long-parses.ts";
import { RESULT_PARSES } from "../runners/http/service-result.ts";

/** All work that the parser's thread can be asked for, by name. */
export const PARSES = { ...BODY_PARSES, ...RESULT_PARSES };

export type ParseName = keyof typeof PARSES;
