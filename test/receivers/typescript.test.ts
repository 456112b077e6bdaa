import { exerciseReceiver } from "./exercise.ts";
import { TYPESCRIPT } from "./languages.ts";

exerciseReceiver(TYPESCRIPT);
