import { exerciseSqlite } from "./conformance.ts";

exerciseSqlite(0);
