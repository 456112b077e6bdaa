import { version } from "../../assets.ts";
import { CACHED_HEADERS, constantAnswer } from "../conditional.ts";
import { inTurns } from "../in-turns.ts";
import { defineOperation, type Operation } from "../operation.ts";
import { openApiDocument } from "./openapi-document.ts";

const HEADERS = { "cache-control": "public, max-age=300" };

export function openApi(others: readonly Operation[]): Operation {
  // Made at the first request: most daemons never serve it.
  const text = async (): Promise<string> =>
    JSON.stringify(await inTurns(openApiDocument([...others, self], version)));
  const self = defineOperation("GET /openapi.json", {
    access: "public",
    doc: {
      id: "getOpenApi",
      group: "Reference",
      summary: "Get this document",
      description: "The API in OpenAPI 3.1, made from the rules by which requests are parsed.",
      answerHeaders: CACHED_HEADERS,
    },
    handle: constantAnswer(text, HEADERS),
  });
  return self;
}
