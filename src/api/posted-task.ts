import { INSTANT } from "../domain/clock/time.ts";
import { PRIORITY, START_AHEAD_DAYS_MAX, type TaskField } from "../domain/task/task-post.ts";
import { TAG } from "../domain/task/task.ts";
import { URL_BYTES_MAX } from "../domain/webhook/url-form.ts";
import * as s from "./schema.ts";

// Without the flag `i`, which JSON Schema does not have.
const WEB_ADDRESS = "^[Hh][Tt][Tt][Pp][Ss]?://";
const URL_RULES = `Public targets alone, at most ${URL_BYTES_MAX} bytes in encoded form.`;

const text = (more: s.More): s.Schema<string | null> => s.nullable(s.text(more));

const FIELDS = {
  type: text("Which runner; optional where there is only one."),
  tag: text({
    ...TAG.schema,
    description: "A label of the client's. Without control characters.",
  }),
  marketplace: text("A code from /v1/appendix/marketplaces."),
  priority: s.nullable(
    s.integer({ ...PRIORITY.schema, description: "Higher first; 0 unless given." }),
  ),
  start_at: text({
    ...INSTANT.schema,
    description: `Not to run before this time, at most ${START_AHEAD_DAYS_MAX} days ahead.`,
  }),
  postback_url: text({
    pattern: WEB_ADDRESS,
    description: `Gets the finished task by a signed POST. ${URL_RULES}`,
  }),
  pingback_url: text({
    pattern: WEB_ADDRESS,
    description: `Gets a signed GET, with $id and $tag filled in. ${URL_RULES}`,
    examples: ["https://example.com/done?id=$id&tag=$tag"],
  }),
  input: s.anything("Any JSON, given to the runner; null when absent."),
} satisfies Record<TaskField, s.Schema<unknown>>;

/**
 * A task in the body of task_post. domain/task/task-post.ts reads it, by hand because it reads thousands a second; a
 * test keeps the two in step.
 */
export const PostedTask = s.named("PostedTask", s.closed(s.object({}, { optional: FIELDS })));
export type PostedTask = s.Static<typeof PostedTask>;

/** The body of task_post: one task, or several. */
export function postedTasks(tasksMax: number): s.Schema<PostedTask | readonly PostedTask[]> {
  return s.either(s.list(PostedTask, { minItems: 1, maxItems: tasksMax }), PostedTask);
}
