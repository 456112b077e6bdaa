import { TASK_FIELD_SCHEMAS } from "../domain/task/task-post.ts";
import { closed, named, object } from "./schema.ts";

/** A task in the body of task_post. */
export const PostedTask = named("PostedTask", closed(object({}, { optional: TASK_FIELD_SCHEMAS })));
