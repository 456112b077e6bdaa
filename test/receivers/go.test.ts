import { exerciseReceiver } from "./exercise.ts";
import { GO } from "./languages.ts";

exerciseReceiver(GO);
