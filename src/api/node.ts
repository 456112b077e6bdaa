import { envelope } from "./envelope.ts";
import * as s from "./schema.ts";
import { Time } from "./value.ts";

const NodeOverview = s.named(
  "NodeOverview",
  s.object({
    id: s.text("New at each start."),
    name: s.text("Of its machine; several nodes may have the same."),
    version: s.text(),
    url: s.nullable(s.text("Where it listens; null when it has not told yet.")),
    answers: s.flag("True for the node that gives this answer."),
    joined_at: Time,
    last_seen_at: Time,
    ended_at: s.nullable(Time),
    duties: s.list(s.text(), { description: "What it does for all nodes." }),
    running: s.nullable(
      s.list(s.object({ type: s.text(), runs: s.count() }), {
        description: "What it runs itself; null when it has not told yet.",
      }),
    ),
    sending: s.nullable(s.count("Webhooks that it is sending.")),
  }),
);
export type NodeOverview = s.Static<typeof NodeOverview>;

export const NODE_ANSWERS = {
  "GET /v1/operator/nodes": envelope({ nodes: s.list(NodeOverview) }),
};
