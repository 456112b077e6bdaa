import { exerciseSqlite } from "./conformance.ts";

exerciseSqlite(1);
