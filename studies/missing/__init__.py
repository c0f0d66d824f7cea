"""The study of missing values: expected predictions against imputation and boosting."""
