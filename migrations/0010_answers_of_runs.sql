-- Answers of language models that hold for a run live as long as the run.
--
-- They were forgotten a week after the question, so that a run that took longer asked again and could
-- decide otherwise than before. The run is named now, and as long as it has not ended its answers
-- are kept.

ALTER TABLE llm_answers ADD COLUMN run_id uuid;
COMMENT ON COLUMN llm_answers.run_id IS 'The run within which the answer holds, and as long as which it is kept; null where it holds beyond one.';
COMMENT ON COLUMN llm_answers.expires_at IS 'When it is forgotten; of a run that has not ended, when that is looked at again.';
