import { CONTENT_TYPES, formatOf } from "../metrics/exposition.ts";
import type { OperationDeps } from "../operation-deps.ts";
import { defineOperation, type Operation } from "../operation.ts";

export function metrics(deps: Pick<OperationDeps, "metricsText">): Operation {
  return defineOperation("GET /metrics", {
    access: "scraper",
    doc: {
      id: "getMetrics",
      group: "Operator",
      summary: "Get metrics",
      description:
        "Everything that is counted, in Prometheus' text format, or as OpenMetrics where `Accept` asks for `application/openmetrics-text`. " +
        "A Prometheus server reads it with the token of `metrics.token`, or without credentials at the address of `metrics.listen`.",
      answerType: CONTENT_TYPES.prometheus,
      answerExamples: { start: EXAMPLE },
    },
    async handle({ headers }) {
      const format = formatOf(headers("accept"));
      return {
        status: 200,
        text: await deps.metricsText(format),
        contentType: CONTENT_TYPES[format],
      };
    },
  });
}

const EXAMPLE = [
  "# HELP postbackd_ready 1 while tasks can be posted, as /readyz tells.",
  "# TYPE postbackd_ready gauge",
  "postbackd_ready 1\n",
].join("\n");
